// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "planner/sharding/hlo_sharding.h"
#include "planner/sharding/named_sharding.h"
#include "planner/values/box.h"
#include "planner/values/layout.h"

namespace remesh::planner {

// The boxes that each of the positions 0..device_count-1 holds of an array of `shape` (which passed
// ValidateShape()).
//
// Tile t of k over extent s is [min(t*c, s), min((t+1)*c, s)) with c = ceil(s/k). Replicas share a
// tile. Devices along manual and unreduced dimensions are in subgroups of their own, numbered
// row-major; Layout::subgroup_kind names them, as in "manual(2),unreduced[sum](4)". A maximal
// sharding over a list of one device means that device.
//
// INVALID_ARGUMENT (fields "shape", "devices" or "sharding"): the rank or the number of devices
// does not match, a position is not in the list, or the sharding is unknown, a tuple, or has a
// maximal subgroup.
absl::StatusOr<Layout> ToLayout(const HloSharding& sharding, const Shape& shape,
                                int32_t device_count);
// REQUIRES: Canonicalized().
absl::StatusOr<Layout> ToLayout(const NamedSharding& sharding, const Shape& shape,
                                int32_t device_count);

}  // namespace remesh::planner
