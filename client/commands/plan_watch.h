// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "client/commands/plan_filter_flags.h"
#include "client/connection.h"
#include "client/output.h"

namespace remesh::client {

struct PlanWatchFlags {
  PlanFilterFlags filter;
  double interval_seconds = 1;
};

// --interval SECONDS, and the flags of the filter.
void AddPlanWatchFlags(CLI::App& app, PlanWatchFlags& flags);

// Lists the plans that pass the filter again and again, and prints those of the first list and what
// is new, changed or gone since, one a line (as JSON: one object a plan). Returns when a call
// fails. A plan that comes and goes between two lists is not seen.
absl::Status WatchPlans(const Endpoint& server, OutputFormat format, const PlanWatchFlags& flags);

}  // namespace remesh::client
