// SPDX-License-Identifier: Apache-2.0
#include "planner/codec/plan_bytes.h"
#include "planner/make_plan.h"
#include "planner/validate.h"
#include "proto/convert/device_count.h"
#include "proto/convert/plan_proto.h"
#include "remesh/v1/plan.pb.h"
#include "tests/fuzz/planned.h"

// A spec is refused, or planned; its plan is right and survives the disk.
REMESH_FUZZ_PROTO(remesh::v1::PlanSpec, input) {
  using namespace remesh;
  proto::DeviceCountOf(input);
  const auto request = proto::ToReshardRequest(input, nullptr);
  if (!request.ok()) return fuzz::CheckRefusal(request.status());
  if (!fuzz::IsSmall(*request)) return;
  const auto canonicalized = planner::Canonicalize(*request);
  REMESH_CHECK(canonicalized.ok());
  const planner::CanonicalRequest& canonical = canonicalized->canonical;
  planner::Budget budget = fuzz::BudgetOfSeconds(5);
  const auto plan = planner::MakePlan(canonical, budget);
  if (absl::IsCancelled(plan.status())) return;
  if (!plan.ok()) {
    return fuzz::CheckRefusal(proto::BindRefusal(plan.status(), canonicalized->binding));
  }
  if (!fuzz::IsShort(*plan)) return;
  REMESH_CHECK(planner::ValidatePlan(*plan, canonical).ok());
  const auto again = planner::DecodePlan(planner::EncodePlan(canonical, *plan));
  REMESH_CHECK(again.ok() && again->plan == *plan);
  proto::ToProto(*plan, canonical, canonicalized->binding, "plans/p");
}
