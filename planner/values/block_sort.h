// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "planner/values/budget.h"
#include "planner/values/resize.h"

namespace remesh::planner {

// Sorts values by small keys, in place: millions of moves are hundreds of megabytes, which a
// counting sort would have in memory twice. Values of a key keep their order.
//
// Each key has a buffer. Values are read in their order into these; a full buffer is written back
// as a block, to where values were read before. Then blocks change places until those of a key lie
// side by side, and at last they move up to make room for what the buffers of lower keys still
// hold.
template <typename T>
class BlockSort {
 public:
  // The most values of a block: a few kilobytes are as fast to move as if they lay in order.
  static constexpr size_t kBlockMax = 64;

  BlockSort(std::vector<T>& values, size_t key_count, Budget& budget)
      : values_(values),
        size_(std::clamp<size_t>(values.size() / key_count / 8, 1, kBlockMax)),
        buffers_(key_count * size_),
        buffered_(key_count, 0),
        blocks_(key_count, 0),
        budget_(budget) {
    Reserve(key_of_block_, values.size() / size_);
  }

  // key(value): 0 .. key_count - 1. The values must not be used once the budget is spent.
  template <typename Key>
  void Run(const Key& key) && {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (budget_.Spent()) return;
      Add(values_[i], static_cast<int32_t>(key(values_[i])));
    }
    ArrangeBlocks();
    AddBuffered();
  }

 private:
  auto BlockAt(size_t i) { return values_.begin() + static_cast<ptrdiff_t>(i * size_); }
  auto BufferOf(size_t key) { return buffers_.begin() + static_cast<ptrdiff_t>(key * size_); }

  void Add(const T& value, int32_t key) {
    *(BufferOf(key) + buffered_[key]++) = value;
    if (buffered_[key] < static_cast<int32_t>(size_)) return;
    std::copy_n(BufferOf(key), size_, BlockAt(key_of_block_.size()));
    key_of_block_.push_back(key);
    buffered_[key] = 0;
    ++blocks_[key];
  }

  // Brings the blocks of a key side by side, in their order.
  void ArrangeBlocks() {
    std::vector<int32_t> next(blocks_.size());
    std::exclusive_scan(blocks_.begin(), blocks_.end(), next.begin(), 0);
    std::vector<int32_t>& place_of = key_of_block_;
    for (int32_t& block : place_of) block = next[block]++;
    for (size_t i = 0; i < place_of.size(); ++i) {
      while (place_of[i] != static_cast<int32_t>(i)) {
        if (budget_.Spent()) return;
        const int32_t place = place_of[i];
        std::swap_ranges(BlockAt(i), BlockAt(i + 1), BlockAt(place));
        std::swap(place_of[i], place_of[place]);
      }
    }
  }

  // Puts what is still in buffers behind the blocks of its key, from the last key to the first.
  void AddBuffered() {
    size_t blocks = key_of_block_.size();
    auto end = values_.end();
    for (size_t key = blocks_.size(); key-- > 0;) {
      end = std::copy_backward(BufferOf(key), BufferOf(key) + buffered_[key], end);
      for (int32_t i = 0; i < blocks_[key]; ++i, --blocks) {
        if (budget_.Spent()) return;
        const bool in_place = end == BlockAt(blocks);
        end = in_place ? BlockAt(blocks - 1)
                       : std::copy_backward(BlockAt(blocks - 1), BlockAt(blocks), end);
      }
    }
  }

  std::vector<T>& values_;
  const size_t size_;  // of a block
  std::vector<T> buffers_;
  std::vector<int32_t> buffered_;      // by key: values in its buffer
  std::vector<int32_t> blocks_;        // by key
  std::vector<int32_t> key_of_block_;  // then the places of blocks
  Budget& budget_;
};

}  // namespace remesh::planner
