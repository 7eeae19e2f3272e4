// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/values/budget.h"
#include "remesh/v1/cache.pb.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::proto {

// The format of a plan in a file: the 8 bytes "remesh.x"; the format number (4 bytes) and the size
// of the content before compression (8 bytes), both low byte first; a v1.ExportedPlan, compressed
// with zstd; and 16 bytes of XXH3-128 over all of these, high byte first.
inline constexpr uint32_t kExportFormat = 1;
inline constexpr size_t kExportBytesMax = size_t{48} << 20;
// A few bytes can unpack to many, and these take more as messages: a spec some 50 times as much.
inline constexpr size_t kExportUnpackedMax = size_t{64} << 20;
inline constexpr size_t kExportSpecMax = size_t{16} << 20;

// RESOURCE_EXHAUSTED (PLAN_TOO_LARGE) above the limits.
absl::StatusOr<std::string> EncodeExport(const v1::ExportedPlan& plan);
// Bytes may come from anywhere. INVALID_ARGUMENT (PLAN_FILE_INVALID) for bad ones.
absl::StatusOr<v1::ExportedPlan> DecodeExport(std::string_view bytes);

// The content of a file as values.
struct ImportedPlan {
  v1::ExportedPlan file;
  v1::PlanSpec spec;                            // the spec that the plan answers
  planner::CanonicalizedRequest canonicalized;  // of `spec`
  planner::Plan plan;                           // as it is in the file
};
// Decodes the plan for the spec in the file, or for `spec`, whose fingerprint must be the same.
// Only the digest vouches that the plan answers the spec: see planner/reprice.h. INVALID_ARGUMENT
// (PLAN_FILE_INVALID) for bad bytes; ToReshardRequest()'s error, with fields below "spec", for a
// bad `spec`; the budget's status once it is spent.
absl::StatusOr<ImportedPlan> ReadExport(std::string_view bytes, const v1::PlanSpec* spec,
                                        const planner::Topology* workers,
                                        planner::Budget& budget = planner::Budget::Unlimited());

}  // namespace remesh::proto
