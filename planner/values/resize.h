// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/huge_pages.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// Makes room for `size` values, on huge pages where that is much.
template <typename T>
void Reserve(std::vector<T>& values, size_t size) {
  values.reserve(size);
  AskForHugePages(values.data(), values.capacity() * sizeof(T));
}

// Lengthens a vector to `size` values T() and looks at the budget after every megabyte of them: to
// touch memory for the first time takes a second for a few gigabytes. Of no use once the budget is
// spent.
template <typename T>
void Resize(std::vector<T>& values, size_t size, Budget& budget) {
  constexpr size_t kStep = std::max<size_t>(1, (size_t{1} << 20) / sizeof(T));
  Reserve(values, size);
  while (values.size() < size && !budget.SpentNow()) {
    values.resize(std::min(size, values.size() + kStep));
  }
}

}  // namespace remesh::planner
