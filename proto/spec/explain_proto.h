// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planner/report/explanation.h"
#include "remesh/v1/explain.pb.h"

namespace remesh {

v1::Explanation ToProto(const Explanation& explanation);

// 0 means the default.
ExplainOptions ToExplainOptions(double checkpoint_bytes_per_second);

}  // namespace remesh
