// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "planner/plan/program_index.h"
#include "planner/values/topology.h"
#include "remesh/v1/plan.pb.h"
#include "remesh/v1/topology.pb.h"

namespace remesh::proto {

// Converts the planner's values to messages of remesh.v1, bound to the caller's ids and names.

v1::Topology ToProto(const planner::Topology& topology);
v1::PlanSummary SummaryOf(const planner::Plan& plan, const planner::Binding& binding);
v1::Box ToProto(const planner::Box& box);
absl::StatusOr<planner::Box> ToBox(const v1::Box& box);  // fields "lo", "hi[2]"

// plans/{fingerprint}-{16 hex digits over the binding}.
std::string PlanName(const std::string& fingerprint, const planner::Binding& binding);

// Sets the fields `summary` and `missing_boxes`.
void SetCost(const planner::Plan& plan, const planner::Binding& binding, v1::Plan& message);

// Adds boxes that must come from a fallback to `message`, from index `first` of plan.missing() on,
// until these are all or take `max_bytes` bytes. Returns the index of the next one.
size_t AddMissing(const planner::Plan& plan, const planner::Binding& binding, size_t first,
                  size_t max_bytes, v1::Plan& message);
inline constexpr size_t kMissingBytes = size_t{64} << 10;  // in a response that is no stream

// The whole plan except transfers, missing boxes beyond kMissingBytes, and the data that only a
// cache has (times, pins, hits). `name` is its PlanName(). Computing it takes time in proportion to
// arrays and devices, so the owner of a plan keeps it too.
v1::Plan ToProto(const planner::Plan& plan, const planner::CanonicalRequest& request,
                 const planner::Binding& binding, const std::string& name);

// A refusal of MakePlan() in the caller's terms: replaces the canonical arrays and devices that it
// names. Other statuses come back unchanged.
absl::Status BindRefusal(const absl::Status& status, const planner::Binding& binding);

// Visits the plan's transfers, in order, as messages that live only for the call.
void ForEachTransferProto(const planner::Plan& plan, const planner::CanonicalRequest& request,
                          const planner::Binding& binding,
                          absl::FunctionRef<void(const v1::Transfer&)> visit);
// As above, from `first_window` on, until `visit` returns false.
void ForEachTransferProtoFrom(int32_t first_window, const planner::Plan& plan,
                              const planner::CanonicalRequest& request,
                              const planner::Binding& binding,
                              absl::FunctionRef<bool(const v1::Transfer&)> visit);

// Visits one host's program in chunks, as WriteProgram() makes them (program_proto.h). NOT_FOUND
// (HOST_NOT_IN_PLAN) for an unknown host. `index`: of the plan.
absl::Status ForEachProgramMessage(const planner::Plan& plan, const planner::ProgramIndex& index,
                                   const planner::CanonicalRequest& request,
                                   const planner::Binding& binding, const std::string& host,
                                   absl::FunctionRef<bool(const v1::HostProgram&)> visit);

}  // namespace remesh::proto
