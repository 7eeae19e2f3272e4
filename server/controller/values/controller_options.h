// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "base/clock.h"
#include "server/controller/values/fence.h"
#include "server/controller/values/topology_rules.h"

namespace remesh::server {

struct ControllerOptions {
  Timestamp heartbeat_interval = std::chrono::seconds(1);
  Timestamp lost_after = std::chrono::seconds(5);            // a worker is lost after this silence
  Timestamp execution_deadline = std::chrono::seconds(300);  // for requests without a deadline
  Timestamp stall_timeout = std::chrono::seconds(60);        // see ExecutionSpec
  Timestamp quiesce_timeout = std::chrono::seconds(4);       // limit for workers to end an attempt
  int32_t grant_ahead = 8;                  // windows granted beyond those done everywhere
  size_t page_bytes_max = size_t{2} << 20;  // of a list's page, whatever page size is asked for
  size_t states_max = 10'000;
  int64_t state_entries_max = 4'000'000;  // arrays and shards of all states: what they hold here
  int64_t states_per_job = 0;             // 0: no limit but states_max
  int64_t bytes_per_job = 0;              // of all shards of its states; 0: no limit
  bool encrypts_data = false;             // between hosts
  size_t finished_executions_max = 1000;  // older ones are dropped
  size_t tombstones_max = 10'000;         // deletions to remember
  // Hosts that have not confirmed these deletions, all together: as many small rows in the journal.
  size_t tombstone_hosts_max = 1'000'000;
  // Time between ticks. A tick that comes later than twice this shows that the server itself stood
  // still. 0: ticks come at any time.
  Timestamp tick_interval{0};
  std::set<std::string> join_token_hashes;  // see EnrolmentRules
  TopologyRules topology_rules;
  std::string version;               // of this server's release; workers are compared to it
  FenceCheck is_present = NoWorlds;  // see CheckFence()
};

// The options that may change while the server runs.
struct LiveOptions {
  Timestamp execution_deadline{0};
  size_t states_max = 0;
  int64_t states_per_job = 0;
  int64_t bytes_per_job = 0;
  bool encrypts_data = false;
  size_t finished_executions_max = 0;
  std::set<std::string> join_token_hashes = {};
  TopologyRules topology_rules = {};
};

// Returns 64 random bits a call. Attempt tokens, uids and names of executions are made of them.
using RandomBits = std::function<uint64_t()>;

}  // namespace remesh::server
