// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace remesh::planner {

// `order`, indices of anything, sorted by key(index) in [0, key_count), equal keys in the order
// they came: a counting sort, whose cost is the number of indices plus that of keys. Applied by the
// lesser key first, it sorts by several.
template <typename Key>
std::vector<int32_t> StableOrder(const std::vector<int32_t>& order, int32_t key_count,
                                 const Key& key) {
  std::vector<int32_t> next(static_cast<size_t>(key_count) + 1, 0);
  for (const int32_t i : order) ++next[key(i) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<int32_t> sorted(order.size());
  for (const int32_t i : order) sorted[next[key(i)]++] = i;
  return sorted;
}

// 0 .. count - 1.
inline std::vector<int32_t> InOrder(size_t count) {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace remesh::planner
