// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::proto {

// FindIntermediateSharding() on messages. Fields: "source.hlo_text", "target.form". The result has
// the source's form, devices and memory kind. FAILED_PRECONDITION as in FindIntermediateSharding().
absl::StatusOr<v1::SuggestIntermediateShardingResponse> SuggestIntermediateSharding(
    const v1::SuggestIntermediateShardingRequest& request);

}  // namespace remesh::proto
