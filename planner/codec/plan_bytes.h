// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"

namespace remesh::planner {

// Raised when the bytes below change, and whenever the planner comes to answer a request otherwise
// than before: bytes of another format are refused, so that plans on disk are made anew instead of
// being served as they were.
inline constexpr int kPlanBytesFormat = 8;

// A canonical request and the plan that answers it.
struct AnsweredRequest {
  CanonicalRequest request;
  Plan plan;
};

// The bytes of both, for disks and files, the same on every machine: 8 letters "remesh.p", the
// format number, the fields (planner/values/byte_archive.h), and 16 bytes of XXH3-128 over all of
// that, high byte first.
std::string EncodePlan(const CanonicalRequest& request, const Plan& plan);

// The inverse. Bytes may come from anywhere: whatever they are, this takes time and memory in
// proportion to them, and a plan that comes back can be expanded. That it answers the request is
// vouched for by the checksum only; ValidatePlan() tells. DATA_LOSS (PLAN_BYTES_CORRUPT), or
// FAILED_PRECONDITION (PLAN_BYTES_FORMAT) for another format.
absl::StatusOr<AnsweredRequest> DecodePlan(std::string_view bytes);

}  // namespace remesh::planner
