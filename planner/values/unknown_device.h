// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "planner/values/topology.h"

namespace remesh::planner {

// INVALID_ARGUMENT for `id`, which is no device of the topology, as InvalidField(). It says which
// devices there are: all, as in "0..3, 8..11", or where that would be long their number and the
// ranges nearest to `id`.
absl::Status UnknownDevice(std::string_view field, int64_t id, const Topology& topology);

}  // namespace remesh::planner
