// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/controller/executions/execution.h"
#include "server/controller/states/host_writes.h"
#include "server/controller/values/action.h"
#include "server/controller/values/device_ledger.h"
#include "server/controller/values/placed.h"

namespace remesh::server {

// An execution, with what else the server knows of it.
struct ExecutionEntry {
  Execution execution;
  std::shared_ptr<const PlacedState> target;
  DeviceSet devices = {};
  bool keeps_plan = false;
  std::string request_digest = "";          // of StartExecution; empty: an old journal lacked it
  std::vector<CallId> resolved_by = {};     // answered when the end is durable
  std::set<std::string> spared_hosts = {};  // see PlannedExecution
  HostWrites source_writes = {};  // of hosts that have prepared, and whose shards are read
};

// The executions, by name, age and request; decides which are forgotten. A value.
class RememberedExecutions {
 public:
  void Add(ExecutionEntry entry);

  // REQUIRES: an execution of this name exists.
  ExecutionEntry& at(const std::string& name) { return by_name_.at(name); }
  const ExecutionEntry& at(const std::string& name) const { return by_name_.at(name); }
  // Null when no execution has this name.
  const ExecutionEntry* Find(const std::string& name) const;
  // See Executions::FindByRequest().
  const ExecutionEntry* FindByRequest(const std::string& state, const std::string& state_uid,
                                      const std::string& request_id) const;
  std::map<std::string, ExecutionEntry>& by_name() { return by_name_; }
  const std::map<std::string, ExecutionEntry>& by_name() const { return by_name_; }
  // Names, by a key that orders the newest first.
  const std::map<std::string, std::string>& by_age() const { return by_age_; }

  // Forgets the oldest executions beyond `most`, none of `running`, and returns their names. Each
  // job has its share: a job that starts many executions drives out its own, not those that other
  // jobs still ask for.
  std::vector<std::string> DropOld(size_t most, const std::set<std::string>& running);

 private:
  void Remove(const std::string& name);

  std::map<std::string, ExecutionEntry> by_name_;
  std::map<std::string, std::string> by_age_;
  std::map<std::string, size_t> of_job_;            // number of executions
  std::map<std::string, std::string> request_ids_;  // request key -> name
};

}  // namespace remesh::server
