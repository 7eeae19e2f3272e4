// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "planner/values/budget.h"
#include "planner/values/resize.h"

namespace remesh::planner {

// A list of an unknown number of small values, perhaps of many millions. A vector that grows copies
// all that it holds at once, and takes a quarter of a second for that before anybody can look at the
// budget; this one never copies more than a chunk at once. Lists up to a chunk are a plain vector.
// For one thread.
template <typename T>
class ChunkedList {
 public:
  static constexpr size_t kChunk = kMegabyteOf<T>;

  void push_back(const T& value) {
    if (last_.size() == kChunk) BeginChunk();
    last_.push_back(value);
  }
  size_t size() const { return full_.size() * kChunk + last_.size(); }

  // All of it, in the order it came. Of no use once the budget is spent.
  std::vector<T> Take(Budget& budget) && {
    if (full_.empty()) return std::move(last_);
    std::vector<T> all;
    Reserve(all, size());
    full_.push_back(std::move(last_));
    for (std::vector<T>& chunk : full_) {
      if (budget.SpentNow()) break;
      all.insert(all.end(), chunk.begin(), chunk.end());
      std::vector<T>().swap(chunk);  // what was copied does not lie there twice
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
