// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "planner/sharding/text_scanner.h"
#include "proto/text/pasted/pasted.h"

namespace remesh::proto {

// What PyTorch prints.

// Whether a text may be placements without their mesh.
bool LooksLikePlacements(std::string_view text);

// Shard(0), S(0), Replicate(), Partial(sum) or _StridedShard(0, 2).
absl::StatusOr<PastedJson> ReadPlacement(planner::TextScanner& scanner);

// (Shard(dim=0), Replicate()), the same in brackets, or one placement.
absl::StatusOr<PastedJson> ReadPlacements(planner::TextScanner& scanner);

// DTensorSpec(mesh=DeviceMesh(...), placements=(...), tensor_meta=...), to the end of the text.
absl::StatusOr<PastedSharding> ReadDTensorSpec(planner::TextScanner scanner);

}  // namespace remesh::proto
