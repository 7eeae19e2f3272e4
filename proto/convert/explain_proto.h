// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planner/report/explanation.h"
#include "remesh/v1/explain.pb.h"

namespace remesh::proto {

// REQUIRES: `explanation` is of `plan`, bound by `binding`.
v1::Explanation ToProto(const planner::Explanation& explanation, const planner::Plan& plan,
                        const planner::Binding& binding);

// 0 means the default.
planner::ExplainOptions ToExplainOptions(double checkpoint_bytes_per_second);

}  // namespace remesh::proto
