// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace remesh::planner {

// Where the bytes of a transfer lie on a device: in its shards of the source generation, in its
// shards of the target generation, or in staging memory that exists only for the execution.
enum class Space : int8_t { kSource, kTarget, kStaging };

}  // namespace remesh::planner
