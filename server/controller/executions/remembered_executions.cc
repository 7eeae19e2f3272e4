// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/remembered_executions.h"

#include <google/protobuf/util/time_util.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

// The job of an execution.
std::string JobOf(const std::string& name) {
  return ParseExecutionName("name", name).value_or("");  // names in a journal are valid
}

// The key of a request_id of StartExecution: it belongs to a state.
std::string RequestKey(const std::string& state, const std::string& state_uid,
                       const std::string& request_id) {
  return absl::StrCat(state, "\n", state_uid, "\n", request_id);
}

// Orders executions from the newest to the oldest.
std::string AgeKey(const v1::Execution& execution) {
  const auto nanos = static_cast<uint64_t>(
      google::protobuf::util::TimeUtil::TimestampToNanoseconds(execution.create_time()));
  return absl::StrFormat("%016x %s", ~nanos, execution.name());
}

}  // namespace

void RememberedExecutions::Add(ExecutionEntry entry) {
  const v1::Execution& resource = entry.execution.resource();
  const std::string name = resource.name();
  by_age_[AgeKey(resource)] = name;
  ++of_job_[JobOf(name)];
  if (!resource.request_id().empty()) {
    request_ids_[RequestKey(resource.state(), resource.state_uid(), resource.request_id())] = name;
  }
  by_name_.emplace(name, std::move(entry));
}

const ExecutionEntry* RememberedExecutions::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

const ExecutionEntry* RememberedExecutions::FindByRequest(const std::string& state,
                                                          const std::string& state_uid,
                                                          const std::string& request_id) const {
  const auto known = request_ids_.find(RequestKey(state, state_uid, request_id));
  return known == request_ids_.end() ? nullptr : &by_name_.at(known->second);
}

std::vector<std::string> RememberedExecutions::DropOld(size_t most,
                                                       const std::set<std::string>& running) {
  std::vector<std::string> dropped;
  for (auto oldest = by_age_.end(); by_name_.size() > most && oldest != by_age_.begin();) {
    --oldest;
    const std::string& name = oldest->second;
    if (running.contains(name)) continue;
    if (of_job_.at(JobOf(name)) <= most / of_job_.size()) continue;
    // A host that is away needs the execution's record to free what it holds.
    const bool room = by_name_.size() <= 2 * most;
    if (room && !by_name_.at(name).execution.forgettable()) continue;
    dropped.push_back(name);
    Remove(name);
    oldest = by_age_.erase(oldest);
  }
  return dropped;
}

// Removes everything but its age.
void RememberedExecutions::Remove(const std::string& name) {
  const v1::Execution& resource = by_name_.at(name).execution.resource();
  request_ids_.erase(RequestKey(resource.state(), resource.state_uid(), resource.request_id()));
  const auto job = of_job_.find(JobOf(name));
  if (--job->second == 0) of_job_.erase(job);
  by_name_.erase(name);
}

}  // namespace remesh::server
