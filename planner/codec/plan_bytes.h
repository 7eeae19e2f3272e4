// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// The format number. It is raised when the bytes below change, and whenever the planner gives
// another answer to a request than the last release did: once between two releases. Bytes of another
// format are refused, so that plans on disk are computed again instead of being served as they were.
// A plan store of a build between two releases may serve plans of an earlier such build.
inline constexpr int kPlanBytesFormat = 9;

// A canonical request and the plan that answers it.
struct AnsweredRequest {
  CanonicalRequest request;
  Plan plan;
};

// The bytes of a request and its plan, for disks and files, the same on every machine: 8 letters
// "remesh.p", the format number, the fields (planner/values/byte_archive.h), and 16 bytes of
// XXH3-128 over all of these, high byte first.
std::string EncodePlan(const CanonicalRequest& request, const Plan& plan);

// The XXH3-128 at the end of a plan's bytes. Plans are equal, and answer the
// same request, if and only if it is. REQUIRES: EncodePlan() made the bytes, or
// DecodePlan() accepted them.
std::string DigestOfPlanBytes(std::string_view bytes);

// The inverse. The bytes may come from anywhere: decoding takes time and memory in proportion to
// them, and a plan that it returns can be expanded. Only the checksum vouches that the plan answers
// the request; ValidatePlan() checks it. DATA_LOSS (PLAN_BYTES_CORRUPT), or FAILED_PRECONDITION
// (PLAN_BYTES_FORMAT) for another format; the budget's status when that is spent.
absl::StatusOr<AnsweredRequest> DecodePlan(std::string_view bytes,
                                           Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
