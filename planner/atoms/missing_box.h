// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/values/box.h"

namespace remesh::planner {

// A box of an array that no living device holds.
struct MissingBox {
  int32_t array = 0;
  Box box;
  int64_t subgroup = 0;               // of the tile that needs the box
  std::vector<int32_t> lost_devices;  // canonical ids

  friend bool operator==(const MissingBox&, const MissingBox&) = default;
};

}  // namespace remesh::planner
