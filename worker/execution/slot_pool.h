// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace remesh::worker {

// How many buffers for packed slices, and how large.
struct SlotShape {
  int count = 0;
  int64_t slot_bytes = 0;

  int64_t bytes() const { return count * slot_bytes; }
};

// Buffers of one size for packed slices. Not thread-safe.
class SlotPool {
 public:
  // REQUIRES: `memory`, which must outlive the pool, has at least shape.bytes().
  SlotPool(const SlotShape& shape, std::span<std::byte> memory)
      : slot_bytes_(static_cast<size_t>(shape.slot_bytes)), memory_(memory) {
    REMESH_CHECK(static_cast<int64_t>(memory.size()) >= shape.bytes());
    for (int i = 0; i < shape.count; ++i) free_.push_back(i);
  }

  bool has_free() const { return !free_.empty(); }

  // REQUIRES: has_free().
  int Take() {
    REMESH_CHECK(has_free());
    const int slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void Give(int slot) { free_.push_back(slot); }

  // REQUIRES: bytes <= slot_bytes.
  std::span<std::byte> bytes(int slot, int64_t bytes) {
    REMESH_CHECK(static_cast<size_t>(bytes) <= slot_bytes_);
    return memory_.subspan(slot * slot_bytes_, static_cast<size_t>(bytes));
  }

 private:
  size_t slot_bytes_;
  std::span<std::byte> memory_;
  std::vector<int> free_;
};

}  // namespace remesh::worker
