// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/values/box.h"
#include "remesh/v1/sharding.pb.h"

namespace remesh::worker {

// The box of a message. INVALID_ARGUMENT (fields "lo", "hi[1]") if it is empty, or does not lie in
// an array of `shape`.
absl::StatusOr<planner::Box> BoxInArray(const v1::Box& message, absl::Span<const int64_t> shape);

v1::Box BoxMessage(const planner::Box& box);

}  // namespace remesh::worker
