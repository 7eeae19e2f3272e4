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

// A plan as a file: the 8 bytes "remesh.x", the format number (4 bytes) and the size of what is
// compressed (8 bytes), both low byte first; a v1.ExportedPlan, compressed by zstd; and 16 bytes of
// XXH3-128 over all of that, high byte first.
inline constexpr uint32_t kExportFormat = 1;
inline constexpr size_t kExportBytesMax = size_t{48} << 20;
inline constexpr size_t kExportUnpackedMax = size_t{512} << 20;

// RESOURCE_EXHAUSTED (PLAN_TOO_LARGE) above the limits.
absl::StatusOr<std::string> EncodeExport(const v1::ExportedPlan& plan);
// Refusals of this and the next are INVALID_ARGUMENT (PLAN_FILE_INVALID). Bytes may come from
// anywhere.
absl::StatusOr<v1::ExportedPlan> DecodeExport(std::string_view bytes);

// A file's content as values.
struct ImportedPlan {
  v1::ExportedPlan file;
  v1::PlanSpec spec;                            // the question answered
  planner::CanonicalizedRequest canonicalized;  // of `spec`
  planner::Plan plan;                           // as the file has it
};
// Decodes the plan for the question in the file, or for `spec`, whose fingerprint must be the same.
// That the plan answers the question is vouched for by the digest only: see planner/reprice.h.
// What the budget says once it is spent.
absl::StatusOr<ImportedPlan> ReadExport(std::string_view bytes, const v1::PlanSpec* spec,
                                        const planner::Topology* workers,
                                        planner::Budget& budget = planner::Budget::Unlimited());

}  // namespace remesh::proto
