// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "planner/canonical/canonical.h"
#include "planner/values/box.h"
#include "planner/values/budget.h"
#include "planner/values/request.h"

namespace remesh {

// Where the bytes of a transfer lie on a device: in its shards of the source generation, in its
// shards of the target generation, or in staging memory that exists for the execution only.
enum class Space : int8_t { kSource, kTarget, kStaging };

// One box on its way from one device to another (or, with equal devices, from source to target
// shard in place). Ids are canonical.
struct Transfer {
  int32_t window = 0;
  int32_t array = 0;
  Box box;
  int32_t from_device = 0;
  int32_t to_device = 0;
  Space from_space = Space::kSource;
  Space to_space = Space::kTarget;  // kStaging: a relay that does not need the box itself
  // The sub (set of elements with equal holders and equal needers) that the box belongs to. What a
  // device stages of different subs lies apart: the values of several subgroups go by the same
  // array and box.
  int32_t sub = 0;

  bool relay() const { return to_space == Space::kStaging; }
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// What one move puts on its way in one window, all boxes of all arrays together.
struct Flow {
  int32_t window = 0;
  int32_t from_device = 0;
  int32_t to_device = 0;  // another one
  int64_t bits = 0;

  friend bool operator==(const Flow&, const Flow&) = default;
};

// What proves that no plan is faster than bits / 8 / capacity seconds. Checkable from the request
// alone:
// - kIngress: `members` is one domain (or host), and needs `bits` bits that none of its living
// devices holds.
// - kEgress: every holder of these `bits` bits lies in `members`, and each bit is needed by a host
// that lies in none of the members that hold it.
// - kRelay (proves T0 only): `bits` bits must leave members where only hosts that hold or need a
// bit handle it, every domain that needs it and does not hold it is entered once by it, and no
// other domain ever. So below each place of the tree one copy goes to each child in need, less one
// where nobody below holds it. Of these copies the first is the members' to send when all hosts
// that may handle it in the children that hold it lie in members, the others when all such hosts
// below the place do. `capacity` is the sum of the members' capacities in that direction, bytes per
// second.
struct Certificate {
  enum class Kind : int8_t { kNone, kIngress, kEgress, kRelay };
  Kind kind = Kind::kNone;
  std::vector<int32_t> hosts;    // members that are hosts, canonical, rising
  std::vector<int32_t> domains;  // members that are domains
  int64_t bits = 0;
  int64_t capacity = 1;

  std::string DebugString() const;
  friend bool operator==(const Certificate&, const Certificate&) = default;
};

// Numbers of a plan. Bytes are of whole elements, rounded up where elements are below a byte.
// Seconds come from capacities alone.
struct PlanSummary {
  int64_t total_bytes = 0;  // all target shards but what is missing = kept + local + crossing
  int64_t kept_bytes = 0;   // held by the same device in the same memory before
  int64_t local_bytes = 0;  // from another device or memory of the same host
  int64_t crossing_bytes =
      0;  // from a device of another host, straight to a device that needs them
  int64_t relayed_bytes =
      0;  // brought to a device that does not need them itself: not in total_bytes
  int64_t bottleneck_bytes = 0;    // through the busiest NIC or uplink, in its busier direction ...
  double bottleneck_seconds = 0;   // ... over its capacity, as achieved
  double lower_bound_seconds = 0;  // LB: no plan is faster
  // T0: no plan without third hosts that enters every domain once is faster; of a plan that
  // undercuts this by entering a domain again, what plans without third hosts can reach, uplinks
  // aside.
  double routing_bound_seconds = 0;
  double quality = 1;            // bottleneck_seconds / LB; 1 when both are 0
  double predicted_seconds = 0;  // of the schedule; sharing model: cost_model.h
  double schedule_price = 1;     // predicted_seconds / bottleneck_seconds; 1 when the latter is 0
  int64_t max_peak_bytes = 0;    // over devices
  int32_t windows = 0;
  int64_t operations = 0;  // messages: ordered device pairs at work, summed over windows

  friend bool operator==(const PlanSummary&, const PlanSummary&) = default;
};

// A box of an array that no living device holds.
struct MissingBox {
  int32_t array = 0;
  Box box;
  int64_t subgroup = 0;               // of the tile in need
  std::vector<int32_t> lost_devices;  // canonical ids

  friend bool operator==(const MissingBox&, const MissingBox&) = default;
};

// The answer to a CanonicalRequest, in canonical ids: immutable, built by MakePlan() only,
// thread-safe to read. Transfers are kept in a compact form (classes and segments) and expanded on
// demand.
class Plan {
 public:
  struct Rep;  // planner/plan/plan_rep.h: for the planner's own files
  explicit Plan(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}

  const PlanSummary& summary() const;
  const std::vector<MissingBox>& missing() const;
  // Per canonical device the predicted peak in bytes.
  const std::vector<int64_t>& peak_bytes() const;
  // What proves summary().lower_bound_seconds, and routing_bound_seconds where that is more.
  const Certificate& lower_bound_certificate() const;
  const Certificate& routing_bound_certificate() const;
  // Estimate of the memory that this object holds: what a cache accounts.
  int64_t memory_bytes() const;

  // Every transfer, ordered by window, and such that a sender always holds what it sends. Includes
  // moves inside a host and kept boxes (from_device == to_device, kSource -> kTarget).
  void ForEachTransfer(absl::FunctionRef<void(const Transfer&)> visit) const;
  // The same order, only those with an end on `host` (canonical index).
  void ForEachTransferOfHost(int32_t host, absl::FunctionRef<void(const Transfer&)> visit) const;
  // The same bits by window and pair of different devices, which may come more than once in a
  // window. Costs O(moves x slices), however many arrays and boxes there are.
  void ForEachFlow(absl::FunctionRef<void(const Flow&)> visit) const;

  // OK when the expanded transfers write every element of every target shard exactly once with the
  // right source element, senders hold what they send when they send it, and window, memory and
  // operation limits hold; with donation of memory that the target shards fit. INTERNAL otherwise.
  // O(transfers): for tests.
  absl::Status Validate(const CanonicalRequest& request) const;

  std::string DebugString() const;
  friend bool operator==(const Plan& a, const Plan& b);

  const Rep& rep() const { return *rep_; }

 private:
  std::shared_ptr<const Rep> rep_;
};

// Plans `request`. The same request gives the same plan on any machine. RESOURCE_EXHAUSTED (reason
// MEMORY_LIMIT, metadata "needed_bytes") when memory_limit_bytes cannot be met; DATA_LOSS when
// boxes are lost and no fallback is declared; what `budget` says once it is spent.
absl::StatusOr<Plan> MakePlan(const CanonicalRequest& request,
                              Budget& budget = Budget::Unlimited());

}  // namespace remesh
