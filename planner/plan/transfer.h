// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/values/box.h"
#include "planner/values/space.h"

namespace remesh::planner {

// One box that goes from one device to another (or, with equal devices, from source to target shard
// in place). Ids are canonical.
struct Transfer {
  int32_t window = 0;
  int32_t array = 0;
  Box box;
  int32_t from_device = 0;
  int32_t to_device = 0;
  Space from_space = Space::kSource;
  Space to_space = Space::kTarget;  // kStaging: a relay that does not need the box itself
  // The tape (elements with equal holders and equal needers) that the box belongs to. A device
  // stages different tapes in different places, because values of several subgroups have the same
  // array and box.
  int32_t tape = 0;

  bool relay() const { return to_space == Space::kStaging; }
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// The bits that one move sends in one window, all boxes of all arrays together.
struct Flow {
  int32_t window = 0;
  int32_t from_device = 0;
  int32_t to_device = 0;  // another one
  int64_t bits = 0;

  friend bool operator==(const Flow&, const Flow&) = default;
};

}  // namespace remesh::planner
