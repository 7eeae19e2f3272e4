// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/values/budget.h"
#include "remesh/v1/plan.pb.h"
#include "server/questions/scaled_layout.h"

namespace remesh::server {

// An event that may happen to a job next, as a reshard from one set of devices to another. Holds
// only what differs from the layout, because each of thousands may have many devices.
struct ScenarioReshard {
  v1::Scenario scenario;          // event, hosts, numbers of devices
  std::vector<int64_t> changing;  // devices of `hosts`

  // Whether the hosts join the job; else they leave it.
  bool joins() const {
    return scenario.event() == v1::Scenario::RETURN || scenario.event() == v1::Scenario::GROW;
  }
};

inline constexpr size_t kScenariosMax = 4096;

// The reshards that `request` asks for, in its order. INVALID_ARGUMENT when there are too many or
// none; the budget's status once `budget` is spent.
absl::StatusOr<std::vector<ScenarioReshard>> ScenariosOf(
    const v1::PrecomputePlansRequest& request, const ElasticLayout& layout,
    planner::Budget& budget = planner::Budget::Unlimited());

// The question that the job asks when the scenario happens. FAILED_PRECONDITION when the job would
// not ask: an axis does not divide, no host is left, or other device lists need hosts that leave.
absl::StatusOr<v1::PlanSpec> QuestionOf(const ScenarioReshard& move, const ElasticLayout& layout,
                                        const v1::PlanOptions& options);

}  // namespace remesh::server
