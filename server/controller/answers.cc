// SPDX-License-Identifier: Apache-2.0
#include "server/controller/answers.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/values/names.h"
#include "server/controller/values/pagination.h"

namespace remesh::server {
namespace {

// A worker with what it owes, and whether it is drained.
v1::Worker ToProto(const WorkerEntry& worker, const ControllerView& view) {
  constexpr int kOwedMax = 1000;
  v1::Worker message = ToProto(worker);
  message.set_drained(view.membership.drained(worker.registration.host()));
  for (const auto& [key, manifest] : worker.manifests) {
    const Owed::Entry* entry = view.owed.Find(worker.registration.host(), key);
    if (entry == nullptr || message.owed_size() == kOwedMax) continue;
    v1::OwedShards& shards = *message.add_owed();
    *shards.mutable_manifest() = entry->manifest;
    shards.set_reason(entry->reason);
  }
  return message;
}

// Only the name is known of a host that has not come back to this life of the server.
v1::Worker WorkerOf(const std::string& host, const ControllerView& view) {
  if (const WorkerEntry* worker = view.workers().Find(host)) return ToProto(*worker, view);
  const auto& departed = view.membership.departed().workers();
  if (const auto left = departed.find(host); left != departed.end() && !view.membership.knows(host))
    return left->second.shown;
  v1::Worker message;
  message.set_phase(v1::Worker::LOST);
  message.set_name(absl::StrCat("workers/", host));
  message.mutable_registration()->set_host(host);
  message.set_drained(view.membership.drained(host));
  return message;
}

absl::Status CheckView(v1::ListStatesRequest::View view) {
  if (v1::ListStatesRequest::View_IsValid(view)) return absl::OkStatus();
  return InvalidField("view", absl::StrCat(view), "must be BASIC or FULL");
}

}  // namespace

absl::StatusOr<Reply> Answer(const v1::GetStateRequest& request, const ControllerView& view) {
  ASSIGN_OR_RETURN(const StateEntry* state,
                   FindState("name", request.name(), view.states.registry()));
  return ToProto(*state, view.workers());
}

absl::StatusOr<Reply> Answer(const v1::ListStatesRequest& request, const ControllerView& view) {
  ASSIGN_OR_RETURN(const std::string prefix, ParseParent("parent", request.parent()));
  const std::string scope = absl::StrCat("states of ", prefix);
  ASSIGN_OR_RETURN(const PageStart start,
                   ParsePage(request.page_size(), request.page_token(), scope));
  RETURN_IF_ERROR(CheckView(request.view()));
  const bool basic = request.view() == v1::ListStatesRequest::BASIC;
  v1::ListStatesResponse response;
  response.set_next_page_token(FillPage(
      view.states.registry().states(), start, scope,
      [&](const StateEntry& state) { return state.name().compare(0, prefix.size(), prefix) == 0; },
      [&](const StateEntry& state) {
        return basic ? ToBasicProto(state, view.workers()) : ToProto(state, view.workers());
      },
      view.options.page_bytes_max, *response.mutable_states()));
  return response;
}

absl::StatusOr<Reply> Answer(const v1::GetExecutionRequest& request, const ControllerView& view) {
  ASSIGN_OR_RETURN(const ExecutionEntry* entry, FindExecution(view.executions, request.name()));
  return entry->execution.resource();
}

absl::StatusOr<Reply> Answer(const v1::ListExecutionsRequest& request, const ControllerView& view) {
  ASSIGN_OR_RETURN(const std::string prefix, ParseParent("parent", request.parent()));
  const std::string scope = absl::StrCat("executions of ", prefix);
  ASSIGN_OR_RETURN(const PageStart start,
                   ParsePage(request.page_size(), request.page_token(), scope));
  v1::ListExecutionsResponse response;
  response.set_next_page_token(FillPage(
      view.executions.by_age(), start, scope,
      [&](const std::string& name) { return name.compare(0, prefix.size(), prefix) == 0; },
      [&](const std::string& name) { return view.executions.Find(name)->execution.resource(); },
      view.options.page_bytes_max, *response.mutable_executions()));
  return response;
}

absl::StatusOr<Reply> Answer(const v1::ListWorkersRequest& request, const ControllerView& view) {
  ASSIGN_OR_RETURN(const PageStart start,
                   ParsePage(request.page_size(), request.page_token(), "workers"));
  std::map<std::string, std::string> hosts;
  const auto& known = view.membership.hosts();
  for (auto next = known.upper_bound(start.after); next != known.end(); ++next) {
    if (hosts.size() > static_cast<size_t>(start.size))
      break;  // one more shows that there are more
    hosts.emplace(next->first, next->first);
  }
  for (const auto& [host, departed] : view.membership.departed().workers())
    hosts.emplace(host, host);
  v1::ListWorkersResponse response;
  response.set_next_page_token(FillPage(
      hosts, start, "workers", [](const std::string&) { return true; },
      [&](const std::string& host) { return WorkerOf(host, view); }, view.options.page_bytes_max,
      *response.mutable_workers()));
  return response;
}

ControllerGauges GaugesOf(const ControllerView& view) {
  const auto& workers = view.workers().workers();
  ControllerGauges gauges;
  gauges.workers = static_cast<int64_t>(view.membership.hosts().size());
  for (const auto& [host, worker] : workers) {
    gauges.workers_alive += worker.alive();
    gauges.workers_drained += view.membership.drained(host);
    gauges.workers_of_other_version +=
        worker.alive() && worker.registration.version() != view.options.version;
  }
  for (const auto& [name, state] : view.states.registry().states()) {
    ++gauges.states[ReportedPhase(state, view.workers())];
  }
  gauges.executions_running = static_cast<int64_t>(view.executions.running().size());
  gauges.owed_generations = static_cast<int64_t>(view.owed.entries().size());
  for (const auto& [key, owed] : view.owed.entries()) gauges.owed_bytes += owed.manifest.bytes();
  gauges.journal_lost = view.leadership.journal_lost();
  gauges.journal_behind = view.leadership.behind() && !gauges.journal_lost;
  gauges.journal_full = view.journal.full();
  return gauges;
}

}  // namespace remesh::server
