// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "planner/values/budget.h"

namespace remesh::planner {

// `order` (indices of anything) sorted by key(index) in [0, key_count); indices with equal keys
// keep their order. A counting sort, which costs the number of indices plus that of keys. To sort
// by several keys, apply it by the least significant key first. The result must not be used once
// the budget is spent.
template <typename Key>
std::vector<int32_t> StableOrder(const std::vector<int32_t>& order, int32_t key_count,
                                 const Key& key, Budget& budget = Budget::Unlimited()) {
  std::vector<int32_t> next(static_cast<size_t>(key_count) + 1, 0);
  for (const int32_t i : order) {
    if (budget.Spent()) return {};
    ++next[key(i) + 1];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<int32_t> sorted(order.size());
  for (const int32_t i : order) {
    if (budget.Spent()) return {};
    sorted[next[key(i)]++] = i;
  }
  return sorted;
}

// std::stable_sort() that looks at the budget; `values` must not be used once it is spent. Sorts
// runs of 4096 values, then merges pairs of runs until all are in order. One look at values that
// are in order already, such as pairs of equal size.
template <typename T, typename Less>
void StableSort(std::vector<T>& values, const Less& less, Budget& budget) {
  constexpr size_t kRun = 4096;
  const size_t size = values.size();
  if (std::is_sorted(values.begin(), values.end(), less)) return;
  for (size_t i = 0; i < size; i += kRun) {
    if (budget.Spent()) return;
    std::stable_sort(values.begin() + i, values.begin() + std::min(i + kRun, size), less);
  }
  std::vector<T> merged;
  for (size_t run = kRun; run < size; run *= 2) {
    bool in_order = true;
    for (size_t i = kRun; i < size && in_order; i += kRun)
      in_order = !less(values[i], values[i - 1]);
    if (in_order) return;
    merged.clear();
    merged.reserve(size);
    for (size_t i = 0; i < size; i += 2 * run) {
      size_t a = i, b = std::min(i + run, size);
      const size_t a_end = b, b_end = std::min(b + run, size);
      while (a < a_end || b < b_end) {
        if (budget.Spent()) return;
        const bool first = b == b_end || (a < a_end && !less(values[b], values[a]));
        merged.push_back(values[first ? a++ : b++]);
      }
    }
    values.swap(merged);
  }
}

// 0 .. count - 1.
inline std::vector<int32_t> InOrder(size_t count) {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace remesh::planner
