// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/report/explanation.h"

namespace remesh::planner {

// One HTML page that shows a plan: what moves and how long it takes, which links bind, who sends to
// whom, the windows over time, and strategies side by side. The page is self-contained: it loads
// nothing from the network, not even fonts, and holds its numbers as JSON. Names of hosts, and
// `label`, may contain any text.
//
// Incomplete when the budget is spent. `label`: the reader's name for the arrays, for the title;
// "" when they have none.
// REQUIRES: `plan` came from `request`, `binding` from its canonicalization; `explanation` is of
// this plan.
std::string HtmlPage(const CanonicalRequest& request, const Plan& plan, const Binding& binding,
                     const Explanation& explanation, std::string_view label,
                     Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
