// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "planner/canonical/canonical.h"
#include "planner/plan.h"
#include "planner/report/explanation.h"
#include "planner/report/traffic.h"

namespace remesh {

// One page that shows a plan: summary and bound, strategies side by side, who sends to whom, and
// the windows over time. It is whole in itself: no network, no fonts, its numbers as JSON in the
// page. Names of hosts may be anything.
//
// REQUIRES: `plan` came from `request`; `explanation` and `traffic` are of this plan.
std::string HtmlPage(const CanonicalRequest& request, const Plan& plan,
                     const Explanation& explanation, const Traffic& traffic);

}  // namespace remesh
