// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/int_math.h"
#include "planner/values/box.h"

namespace remesh::worker {

// Bytes of `box` packed row-major: rounded up to whole bytes.
inline int64_t PackedBytes(const planner::Box& box, int bits_per_element) {
  return BytesOfBits(box.element_count() * bits_per_element);
}

// A shard in memory: the elements of `frame` (global indices) of one array, dense and row-major
// from bit 0 of `data`. Elements of less than 8 bits are packed without padding between rows, low
// bits of a byte first; bits after the last element are zero.
struct ShardView {
  std::byte* data = nullptr;
  planner::Box frame;
  int bits_per_element = 8;

  int64_t bytes() const { return PackedBytes(frame, bits_per_element); }
};

}  // namespace remesh::worker
