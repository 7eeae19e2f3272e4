// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "base/clock.h"
#include "server/controller/topology_rules.h"

namespace remesh::server {

struct ControllerOptions {
  Timestamp heartbeat_interval = std::chrono::seconds(1);
  Timestamp lost_after = std::chrono::seconds(5);            // of silence
  Timestamp execution_deadline = std::chrono::seconds(300);  // of requests that name none
  Timestamp quiesce_timeout = std::chrono::seconds(4);  // most time for workers to end an attempt
  int32_t grant_ahead = 8;                  // windows granted beyond those done everywhere
  size_t page_bytes_max = size_t{2} << 20;  // of a list's page, however many entries are asked for
  size_t states_max = 10'000;
  int64_t states_per_job = 0;             // 0: no limit but states_max
  int64_t bytes_per_job = 0;              // of all shards of its states; 0: no limit
  bool encrypts_data = false;             // what hosts send each other
  size_t finished_executions_max = 1000;  // older ones are dropped
  size_t tombstones_max = 10'000;         // deletions that are remembered
  // Between ticks. One that comes later than twice this tells that the server itself stood still.
  // 0: ticks come at any time.
  Timestamp tick_interval{0};
  std::set<std::string> join_token_hashes;  // see EnrolmentRules
  TopologyRules topology_rules;
  std::string version;  // of this release, which workers are compared to
};

// What of the above may change while the server runs.
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

// 64 random bits a call. Attempt tokens, uids and names of executions are made of them.
using RandomBits = std::function<uint64_t()>;

}  // namespace remesh::server
