// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace remesh::planner {

// A number for each pair of two numbers below `count`, kUnknown at first. A table where pairs are
// not many more than those that will be asked for, which takes a fraction of the time; else, and
// for larger numbers, a map. For one thread.
class IndexOfPair {
 public:
  static constexpr int32_t kUnknown = -2;

  // `expected`: about how many pairs will be asked for.
  IndexOfPair(size_t count, size_t expected) : count_(count) {
    if (count <= kCellsOfPair * expected / (count + 1)) table_.assign(count * count, kUnknown);
  }

  int32_t& At(int32_t first, int32_t second) {
    const auto row = static_cast<size_t>(first), column = static_cast<size_t>(second);
    if (!table_.empty() && row < count_ && column < count_) return table_[row * count_ + column];
    const uint64_t pair = static_cast<uint64_t>(first) << 32 | static_cast<uint32_t>(second);
    return map_.try_emplace(pair, kUnknown).first->second;
  }

 private:
  static constexpr size_t kCellsOfPair = 8;

  const size_t count_;
  std::vector<int32_t> table_;
  absl::flat_hash_map<uint64_t, int32_t> map_;
};

}  // namespace remesh::planner
