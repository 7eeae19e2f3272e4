// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/report/explanation.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::client {

// What `remeshctl plan` reports besides the plan.
struct PlanReport {
  bool explain = false;
  std::string trace;  // files to write; "" for none
  std::string html;
  std::string label;  // what the page calls the thing that moves; "": no name
  double checkpoint_bytes_per_second = planner::ExplainOptions().checkpoint_bytes_per_second;

  bool needs_explanation() const { return explain || !html.empty(); }
};

// --explain, --trace FILE, --html FILE, --checkpoint-rate BYTES.
void AddPlanReportFlags(CLI::App& app, PlanReport& report);

// For a plan made here: writes the files that `report` names, and explains the plan if asked to;
// otherwise the message is empty. REQUIRES: `plan` came from `canonicalized`.
absl::StatusOr<v1::Explanation> WritePlanReport(const PlanReport& report,
                                                const planner::CanonicalizedRequest& canonicalized,
                                                const planner::Plan& plan);

// As WritePlanReport(), for the plan `name` that `server` keeps.
absl::StatusOr<v1::Explanation> WritePlanReportOf(const Endpoint& server, const PlanReport& report,
                                                  const std::string& name);

// A text for people: the strategies side by side, the busiest hosts and domains, and what limits
// the plan.
std::string ExplanationText(const v1::Explanation& explanation);

}  // namespace remesh::client
