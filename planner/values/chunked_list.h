// SPDX-License-Identifier: Apache-2.0
#pragma once

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

  void push_back(const T& value) {
    if (last_.size() == kChunk) BeginChunk();
    last_.push_back(value);
  }
  size_t size() const { return full_.size() * kChunk + last_.size(); }

  // All values, in the order they were added. The result must not be used once the budget is spent.
  std::vector<T> Take(Budget& budget) && {
    if (full_.empty()) return std::move(last_);
    std::vector<T> all;
    Reserve(all, size());
    full_.push_back(std::move(last_));
    for (std::vector<T>& chunk : full_) {
      if (budget.SpentNow()) break;
      all.insert(all.end(), chunk.begin(), chunk.end());
      std::vector<T>().swap(chunk);  // so that at most one chunk is in memory twice
    }
    return all;
  }

 private:
  void BeginChunk() {
    full_.push_back(std::move(last_));
    last_ = std::vector<T>();
    last_.reserve(kChunk);
  }

  std::vector<std::vector<T>> full_;  // of kChunk values each
  std::vector<T> last_;
};

}  // namespace remesh::planner
