// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "planner/values/budget.h"
#include "planner/values/element_type.h"
#include "planner/values/layout.h"
#include "planner/values/topology.h"

namespace remesh::planner {

// The memory of a device's host that an array lies in. A move between kinds on one device is a copy
// inside the host.
enum class MemoryKind : int8_t { kDevice, kPinnedHost, kUnpinnedHost };

// The caller's device ids; position i of a layout is ids[i]. Shared by many arrays.
using DeviceList = std::vector<int64_t>;
using DeviceListPtr = std::shared_ptr<const DeviceList>;

// A layout on real devices. REQUIRES: layout->device_count == devices->size().
struct Placement {
  LayoutPtr layout;
  DeviceListPtr devices;
  MemoryKind memory_kind = MemoryKind::kDevice;
};

struct ArraySpec {
  std::string name;
  Shape shape;
  ElementType element_type = ElementType::kU8;
  Placement source;
  Placement target;
};

enum class Strategy : int8_t {
  kOptimal,
  kP2p,     // every target shard is pulled from one holder, once per replica: the baseline of most
            // systems
  kGather,  // one device gathers each array and broadcasts it
};

// Narrower windows could not hold one element of every type.
inline constexpr int64_t kWindowBytesMin = 256;

struct PlanOptions {
  int64_t window_bytes = 256 << 20;  // W: bytes in flight per device, >= kWindowBytesMin
  int64_t memory_limit_bytes = 0;    // per device; 0: none
  bool donate = false;
  bool free_target_order = false;
  std::vector<int64_t> lost_device_ids;
  Strategy strategy = Strategy::kOptimal;

  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

// Where to take boxes from when no living device holds them.
struct Fallback {
  enum class Kind : int8_t { kHostSnapshot, kCheckpoint };
  Kind kind = Kind::kHostSnapshot;
  std::string location;  // host name or absolute checkpoint path
  int64_t step = 0;

  friend bool operator==(const Fallback&, const Fallback&) = default;
};

// Everything a plan depends on: a PlanSpec after the front ends. Equal layouts and device lists
// should share pointers: the cost of planning depends on distinct (layout, device list) pairs, not
// on arrays.
struct ReshardRequest {
  Topology topology;
  std::vector<ArraySpec> arrays;
  PlanOptions options;
  std::vector<Fallback> fallbacks;
};

// The bits that all devices hold before and after, together, are below this. Then no sum that
// planning computes reaches 4 times as much, and all fit 64 bits:
// - the source covers every array, so arrays, atoms and tapes hold no more than it does;
// - every needer is entered once, which moves at most what the target holds. Staging adds at most
//   one move over the fabric at either end, so all moves carry at most 3 times that;
// - what a link can carry in a given time may be more. It saturates (Rational::CeilTimes) and is
//   compared with such sums, or they are taken off it, but it is never added up.
inline constexpr int64_t kHeldBitsMax = int64_t{1} << 60;

// INVALID_ARGUMENT with the field named: invalid topology or options; no arrays; array names empty
// or repeated; a layout of another shape; device lists with repeats or devices outside the
// topology; a source whose shards, those of lost devices included, do not cover the array; subgroup
// kinds or subgroups that differ between source and target; devices that hold kHeldBitsMax or more.
absl::Status ValidateRequest(const ReshardRequest& request,
                             Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
