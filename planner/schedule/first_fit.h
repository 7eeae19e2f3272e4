// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

namespace remesh::planner {

// Assigns addresses to pieces of memory that come and go, each the lowest with room: the layout of
// an area, made before its memory exists.
class FirstFit {
 public:
  // Areas of this size are not laid out any further: no machine has so much memory.
  static constexpr int64_t kMost = int64_t{1} << 60;

  // Take() tries at most this many of the lowest gaps.
  static constexpr int kHolesTried = 256;

  // Takes `bytes` bytes of free memory and returns their address.
  int64_t Take(int64_t bytes);
  // Frees what Take() returned.
  void Give(int64_t at, int64_t bytes);

  // The size of the area that holds everything taken so far.
  int64_t most() const { return most_; }

 private:
  std::map<int64_t, int64_t> holes_;  // address -> bytes, all below top_; no two are adjacent
  int64_t top_ = 0;                   // all memory from here on is free
  int64_t most_ = 0;
};

}  // namespace remesh::planner
