// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/huge_pages.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// About a megabyte, as a number of values: the most that is copied between two looks at a budget.
template <typename T>
inline constexpr size_t kMegabyteOf = std::max<size_t>(1, (size_t{1} << 20) / sizeof(T));

// Reserves room for `size` values, on huge pages if that is much memory.
template <typename T>
void Reserve(std::vector<T>& values, size_t size) {
  values.reserve(size);
  AskForHugePages(values.data(), values.capacity() * sizeof(T));
}

// Appends `values` to `to`, which has room for them, and looks at the budget after every megabyte.
// `to` must not be used once the budget is spent.
template <typename T>
void Append(std::vector<T>& to, const std::vector<T>& values, Budget& budget) {
  constexpr size_t kStep = kMegabyteOf<T>;
  for (size_t at = 0; at < values.size() && !budget.SpentNow(); at += kStep) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(at);
    to.insert(to.end(), begin, begin + std::min(kStep, values.size() - at));
  }
}

// Extends `values` to `size` values T() and looks at the budget after every megabyte: touching a
// few gigabytes of memory for the first time takes a second. `values` must not be used once the
// budget is spent.
template <typename T>
void Resize(std::vector<T>& values, size_t size, Budget& budget) {
  constexpr size_t kStep = kMegabyteOf<T>;
  Reserve(values, size);
  while (values.size() < size && !budget.SpentNow()) {
    values.resize(std::min(size, values.size() + kStep));
  }
}

}  // namespace remesh::planner
