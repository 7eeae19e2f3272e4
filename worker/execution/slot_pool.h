// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace remesh {

// Buffers of one size for packed pieces, all allocated at once. Not thread-safe.
class SlotPool {
 public:
  SlotPool(int count, int64_t slot_bytes)
      : slot_bytes_(static_cast<size_t>(slot_bytes)),
        memory_(count * static_cast<size_t>(slot_bytes)) {
    for (int i = 0; i < count; ++i) free_.push_back(i);
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
    return std::span(memory_).subspan(slot * slot_bytes_, static_cast<size_t>(bytes));
  }

 private:
  size_t slot_bytes_;
  std::vector<std::byte> memory_;
  std::vector<int> free_;
};

}  // namespace remesh
