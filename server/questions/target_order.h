// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "planner/canonical/canonical.h"
#include "planner/plan/plan.h"
#include "proto/convert/plan_spec.h"
#include "remesh/v1/state.pb.h"

namespace remesh::server {

// Which device takes a target device's place. Devices that are not in it keep their places.
using TargetOrder = absl::flat_hash_map<int64_t, int64_t>;

// The order that `plan` chose, in the caller's ids; empty when the order was not free.
TargetOrder ChosenOrder(const planner::Plan& plan, const planner::Binding& binding);

// The same shardings, with devices replaced according to `order`.
v1::StateSpec WithOrder(v1::StateSpec spec, const TargetOrder& order);

}  // namespace remesh::server
