// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// The load that a plan puts on one host or domain. Its seconds are those of its busiest link: for a
// host those of the busiest NIC, so that they exceed bytes / capacity where NICs are not equally
// busy.
struct DomainTraffic {
  enum class Kind : int8_t { kHost, kDomain };
  Kind kind = Kind::kHost;
  std::string name;   // the caller's
  int32_t level = 0;  // of domains: 0 next to the root, one more a step down; 0 for hosts
  int64_t ingress_bytes = 0;
  int64_t egress_bytes = 0;
  double ingress_bytes_per_second = 0;  // of all NICs that carry
  double egress_bytes_per_second = 0;
  double ingress_seconds = 0;
  double egress_seconds = 0;
  bool binding = false;  // busy for at least 99.9 % of PlanSummary::bottleneck_seconds

  friend bool operator==(const DomainTraffic&, const DomainTraffic&) = default;
};

// All hosts, or all domains of a level. A level is as slow as its busiest member.
struct LevelTraffic {
  int64_t count = 0;         // of hosts or domains with traffic
  int64_t egress_bytes = 0;  // that leave one of them: what crosses the network at this level
  bool binding = false;      // whether one of them binds
  DomainTraffic busiest;     // its kind and level are those of all

  friend bool operator==(const LevelTraffic&, const LevelTraffic&) = default;
};

// The cost of one way to move the same state.
struct StrategyCost {
  std::string name;
  std::string how;             // one sentence
  int64_t crossing_bytes = 0;  // over the network, relays included; written + read for a checkpoint
  int64_t bottleneck_bytes = 0;
  double seconds = 0;  // of the busiest link; of storage for a checkpoint
  double ratio = 1;    // seconds over those of the plan; 1 when both are 0, infinite when only the
                       // plan's are

  friend bool operator==(const StrategyCost&, const StrategyCost&) = default;
};

// Explains in the caller's names why a plan costs what it costs, and what it saves.
struct Explanation {
  std::string certificate;          // proof of the lower bound
  std::string routing_certificate;  // proof of T0 where it is above the lower bound, else ""
  // The busiest links of this plan, and the fabric of a device where that is busier still.
  std::string bottleneck;
  // Why the plan takes longer than these (WaitsInWords()), "" up to a schedule_price of
  // kExplainedPrice.
  std::string schedule;
  std::vector<DomainTraffic> domains;    // with traffic: binding ones by name, others by seconds
  std::vector<LevelTraffic> levels;      // domains next to the root first, hosts last
  std::vector<StrategyCost> strategies;  // the plan first

  friend bool operator==(const Explanation&, const Explanation&) = default;
};

struct ExplainOptions {
  double checkpoint_bytes_per_second = 2e9;  // of one host to and from storage; finite and > 0
};

// Explains `plan`. Plans the request again with the other strategies, without memory limit.
// INVALID_ARGUMENT for bad options; the budget's status once it is spent. REQUIRES: `plan` came
// from `request`, `binding` from its canonicalization.
absl::StatusOr<Explanation> Explain(const CanonicalRequest& request, const Plan& plan,
                                    const Binding& binding, const ExplainOptions& options = {},
                                    Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
