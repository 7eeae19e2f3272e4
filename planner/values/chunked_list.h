// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "planner/values/budget.h"
#include "planner/values/resize.h"

namespace remesh::planner {

// A list of an unknown number of small values, perhaps many millions. A std::vector copies all its
// values at once when it grows, which takes up to a quarter of a second without a look at the
// budget; this list never copies more than a chunk at once. A list of up to one chunk is a plain
// vector. For one thread.
template <typename T>
class ChunkedList {
 public:
  static constexpr size_t kChunk = kMegabyteOf<T>;

  // The first chunk takes `expected` values, if that is more: a list of no more is never copied.
  explicit ChunkedList(size_t expected = 0) : chunk_(std::max(expected, kChunk)) {
    if (expected > kChunk) Reserve(last_, expected);
  }

  void push_back(const T& value) {
    if (last_.size() == chunk_) BeginChunk();
    last_.push_back(value);
  }
  size_t size() const { return full_size_ + last_.size(); }

  // All values, in the order they were added. The result must not be used once the budget is spent.
  std::vector<T> Take(Budget& budget) && {
    if (full_.empty()) return std::move(last_);
    std::vector<T> all;
    Reserve(all, size());
    full_.push_back(std::move(last_));
    for (std::vector<T>& chunk : full_) {
      Append(all, chunk, budget);
      std::vector<T>().swap(chunk);  // so that at most one chunk is in memory twice
    }
    return all;
  }

 private:
  void BeginChunk() {
    full_size_ += last_.size();
    full_.push_back(std::move(last_));
    last_ = std::vector<T>();
    last_.reserve(kChunk);
    chunk_ = kChunk;
  }

  size_t chunk_;                      // the size of the last chunk once it is full
  std::vector<std::vector<T>> full_;  // full chunks
  size_t full_size_ = 0;
  std::vector<T> last_;
};

}  // namespace remesh::planner
