// SPDX-License-Identifier: Apache-2.0
#include "planner/codec/plan_bytes.h"
#include "proto/convert/device_count.h"
#include "proto/convert/plan_proto.h"
#include "remesh/v1/plan.pb.h"
#include "tests/fuzz/planned.h"

// A spec is refused, or planned; its plan is right and survives the disk.
REMESH_FUZZ_PROTO(remesh::v1::PlanSpec, input) {
  using namespace remesh;
  DeviceCountOf(input);
  const auto request = ToReshardRequest(input, nullptr);
  if (!request.ok()) return fuzz::CheckRefusal(request.status());
  if (!fuzz::IsSmall(*request)) return;
  const auto canonicalized = Canonicalize(*request);
  REMESH_CHECK(canonicalized.ok());
  const CanonicalRequest& canonical = canonicalized->canonical;
  const auto plan = MakePlan(canonical);
  if (!plan.ok()) {
    return fuzz::CheckRefusal(BindRefusal(plan.status(), canonicalized->binding));
  }
  if (!fuzz::IsShort(*plan)) return;
  REMESH_CHECK(plan->Validate(canonical).ok());
  const auto again = DecodePlan(EncodePlan(canonical, *plan));
  REMESH_CHECK(again.ok() && again->plan == *plan);
  ToProto(*plan, canonical, canonicalized->binding, "plans/p");
}
