// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace remesh::planner {

// A number for each pair of two numbers below `count`, kUnknown at first. A table where pairs are
// not many more than those that will be asked for, which takes a fraction of the time. Else, where
// a first number has few pairs on average, chains of up to kChain pairs by first number: neighbours
// are mostly asked for one after another, and so lie near each other. Else, and for what does not
// fit, a map. For one thread.
class IndexOfPair {
 public:
  static constexpr int32_t kUnknown = -2;

  // `expected`: about how many pairs will be asked for.
  IndexOfPair(size_t count, size_t expected) : count_(count) {
    if (count <= kCellsOfPair * expected / (count + 1)) {
      table_.assign(count * count, kUnknown);
    } else if (expected <= kChain * count) {
      chains_.resize(count);
    }
  }

  // Valid until the next call.
  int32_t& At(int32_t first, int32_t second) {
    const auto row = static_cast<size_t>(first), column = static_cast<size_t>(second);
    if (!table_.empty() && row < count_ && column < count_) return table_[row * count_ + column];
    if (row < chains_.size()) {
      Chain& chain = chains_[row];
      for (int32_t i = chain.last; i >= 0; i = links_[i].before) {
        if (links_[i].second == second) return links_[i].number;
      }
      if (chain.size < kChain) return Lengthened(chain, second);
    }
    const uint64_t pair = static_cast<uint64_t>(first) << 32 | static_cast<uint32_t>(second);
    return map_.try_emplace(pair, kUnknown).first->second;
  }

 private:
  static constexpr size_t kCellsOfPair = 8;
  static constexpr size_t kChain = 32;

  struct Chain {
    int32_t last = -1;  // into links_
    uint32_t size = 0;
  };
  struct Link {
    int32_t second = 0;
    int32_t number = kUnknown;
    int32_t before = -1;
  };

  int32_t& Lengthened(Chain& chain, int32_t second) {
    links_.push_back({.second = second, .before = chain.last});
    chain.last = static_cast<int32_t>(links_.size()) - 1;
    ++chain.size;
    return links_.back().number;
  }

  const size_t count_;
  std::vector<int32_t> table_;
  std::vector<Chain> chains_;  // by first number
  std::vector<Link> links_;
  absl::flat_hash_map<uint64_t, int32_t> map_;
};

}  // namespace remesh::planner
