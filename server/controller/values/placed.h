// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "proto/convert/plan_spec.h"
#include "remesh/v1/plan.pb.h"
#include "remesh/v1/state.pb.h"
#include "remesh/v1/worker.pb.h"

namespace remesh::server {

// The largest sum of states' bytes: above every limit, and far from an overflow.
inline constexpr int64_t kBytesSumMax = int64_t{1} << 62;
// REQUIRES: sum <= kBytesSumMax, more >= 0.
inline int64_t AddBytes(int64_t sum, int64_t more) {
  return sum > kBytesSumMax - std::min(more, kBytesSumMax) ? kBytesSumMax : sum + more;
}

// The devices of a host that a state or a plan names.
struct HostDevices {
  std::vector<int64_t> device_ids;     // of the whole host, in local order
  std::vector<int32_t> local_devices;  // the named ones, in rising order
};

// A shard of a state on a host: indices, because a state may have millions. See AssignmentOf().
struct PlacedShard {
  int32_t array = 0;         // index into PlacedState::arrays
  int32_t local_device = 0;  // of its host
  int32_t position = 0;      // of the array's layout
  int32_t box = 0;           // of the position
};

// One host's part of a state.
struct HostPart {
  std::vector<PlacedShard> shards;
  HostDevices devices;
  int64_t bytes = 0;  // of the shards
};

// A state's layout, divided by host: the form in which the controller knows it.
struct PlacedState {
  v1::StateSpec spec;                                            // with its topology spelled out
  std::shared_ptr<const proto::StateLayout> layout;              // null: shards without boxes
  google::protobuf::RepeatedPtrField<v1::AssignedArray> arrays;  // of every host's assignment
  std::map<std::string, HostPart> hosts;                         // by name: hosts that hold a shard
  int64_t total_shards = 0;
  int64_t total_bytes = 0;
};

// The host's part as the server sends it to the worker, except state, generation and committed.
// REQUIRES: the state has a shard there.
v1::Assignment AssignmentOf(const PlacedState& placed, const std::string& host);
// The same with its shards in columns, so without a message a shard; without boxes, or where columns
// would not fit well into one message, with its shards as they are.
v1::Assignment AssignmentInColumns(const PlacedState& placed, const std::string& host);
// Bytes of memory that it takes, roughly; 0 without a shard there.
size_t AssignmentBytes(const PlacedState& placed, const std::string& host);

// The plan for a move of a state to its targets.
struct PlannedExecution {
  std::shared_ptr<const PlacedState> target;
  // Every host that the plan names, relays included, except hosts whose named devices are all lost.
  std::map<std::string, HostDevices> hosts;
  // For each of `hosts`, in their order, those with which it exchanges data: rising indices in that
  // order. Empty: not known, so each may exchange with all.
  std::vector<std::vector<int32_t>> exchanges = {};
  std::set<std::string> spared_hosts;  // all their shards of the source are on lost devices
  // The state is where the move leads, and no device is lost: see Execution.target_generation.
  bool moves_nothing = false;
  std::vector<int64_t> lost_device_ids;
  std::vector<v1::TargetDeviceList> target_device_lists;  // if their order was free
  std::string plan;  // plans/{...}; kept in the cache until released; empty: nothing was planned
  std::string fingerprint;
  std::string plan_digest = "";  // see Prepare
  v1::PlanSummary summary;
  v1::Planning planning;
  double compute_seconds = 0;  // the time that it took to compute the plan
  int64_t window_bytes = 0;
};

}  // namespace remesh::server
