// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "proto/convert/plan_spec.h"

namespace remesh::server {

// OK when both hold the same arrays (names, shapes, types, in any order) in the same places: the
// same boxes on the same local devices of the same hosts under the same ids, in the same memory.
// Otherwise FAILED_PRECONDITION, with the difference.
absl::Status CheckSameLayout(const proto::StateLayout& a, const proto::StateLayout& b);

}  // namespace remesh::server
