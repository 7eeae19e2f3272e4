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

// Bytes of states together stop here: more than any limit, and far from where a sum would wrap.
inline constexpr int64_t kBytesSumMax = int64_t{1} << 62;
// REQUIRES: sum <= kBytesSumMax, more >= 0.
inline int64_t AddBytes(int64_t sum, int64_t more) {
  return sum > kBytesSumMax - std::min(more, kBytesSumMax) ? kBytesSumMax : sum + more;
}

// Devices of a host that a state or a plan names.
struct HostDevices {
  std::vector<int64_t> device_ids;     // of the whole host, in local order
  std::vector<int32_t> local_devices;  // those named, rising
};

// One host's part of a state.
struct HostPart {
  v1::Assignment assignment;  // state, generation and committed are filled in when it is sent
  HostDevices devices;
};

// A state's layout taken apart for its hosts: what the controller needs to know of it.
struct PlacedState {
  v1::StateSpec spec;                                // with its topology spelled out
  std::shared_ptr<const proto::StateLayout> layout;  // for planning only
  std::map<std::string, HostPart> hosts;             // by name: those that hold a shard
  int64_t total_shards = 0;
  int64_t total_bytes = 0;
};

// The answer to "from this state to those targets".
struct PlannedExecution {
  std::shared_ptr<const PlacedState> target;
  // Every host that the plan names, relays included, but for those with lost devices only.
  std::map<std::string, HostDevices> hosts;
  std::set<std::string> spared_hosts;  // whose shards of the source are all on lost devices
  std::vector<int64_t> lost_device_ids;
  std::vector<v1::TargetDeviceList> target_device_lists;  // when their order was free
  std::string plan;  // plans/{...}; kept in the cache until released
  std::string fingerprint;
  v1::PlanSummary summary;
  v1::Planning planning;
  double compute_seconds = 0;  // that the plan took when it was computed
  int64_t window_bytes = 0;
};

}  // namespace remesh::server
