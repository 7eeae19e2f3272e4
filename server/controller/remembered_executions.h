// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/controller/action.h"
#include "server/controller/device_ledger.h"
#include "server/controller/execution.h"
#include "server/controller/placed.h"

namespace remesh::server {

// An execution, and what the server needs to know of it.
struct ExecutionEntry {
  Execution execution;
  std::shared_ptr<const PlacedState> target;
  std::set<DeviceKey> devices = {};
  bool keeps_plan = false;
  std::string request_digest = "";       // of the StartExecution; empty: from a journal without it
  std::vector<CallId> resolved_by = {};  // are answered when the end is durable
};

// The executions that there are, found by name, age and request, and which of them are forgotten.
// A value.
class RememberedExecutions {
 public:
  void Add(ExecutionEntry entry);

  // REQUIRES: there is one of the name.
  ExecutionEntry& at(const std::string& name) { return by_name_.at(name); }
  const ExecutionEntry& at(const std::string& name) const { return by_name_.at(name); }
  // Null when there is none of the name.
  const ExecutionEntry* Find(const std::string& name) const;
  // See Executions::FindByRequest().
  const ExecutionEntry* FindByRequest(const std::string& state, const std::string& state_uid,
                                      const std::string& request_id) const;
  std::map<std::string, ExecutionEntry>& by_name() { return by_name_; }
  const std::map<std::string, ExecutionEntry>& by_name() const { return by_name_; }
  // Name by a key that puts the newest first.
  const std::map<std::string, std::string>& by_age() const { return by_age_; }

  // Forgets the oldest beyond `most`, none of `running`, and returns their names. A job that starts
  // many of them drives out its own, not those that others still ask for: each job has its share.
  std::vector<std::string> DropOld(size_t most, const std::set<std::string>& running);

 private:
  void Remove(const std::string& name);

  std::map<std::string, ExecutionEntry> by_name_;
  std::map<std::string, std::string> by_age_;
  std::map<std::string, size_t> of_job_;            // how many
  std::map<std::string, std::string> request_ids_;  // -> name
};

}  // namespace remesh::server
