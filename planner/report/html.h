// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/report/explanation.h"

namespace remesh::planner {

// One page that shows a plan: what moves and how long it takes, what binds, who sends to whom, the
// windows over time, strategies side by side. It is whole in itself: no network, no fonts, its
// numbers as JSON in the page. Names of hosts, and `label`, may be anything.
//
// `label`: what the reader calls the arrays, for the title; "" where it has no name.
// REQUIRES: `plan` came from `request`, `binding` from its canonicalization; `explanation` is of
// this plan.
std::string HtmlPage(const CanonicalRequest& request, const Plan& plan, const Binding& binding,
                     const Explanation& explanation, std::string_view label);

}  // namespace remesh::planner
