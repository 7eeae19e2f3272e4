// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/values/box.h"
#include "planner/values/request.h"

namespace remesh::testing {

// Row-major index in an array of that shape of every element of the box.
template <typename Visit>
void ForEachIndex(const planner::Shape& shape, const planner::Box& box, const Visit& visit) {
  if (box.empty()) return;
  std::vector<int64_t> at;
  for (const planner::Interval& i : box.dims) at.push_back(i.lo);
  while (true) {
    int64_t index = 0;
    for (size_t d = 0; d < at.size(); ++d) index = index * shape[d] + at[d];
    visit(index);
    int d = static_cast<int>(at.size()) - 1;
    for (; d >= 0 && ++at[d] == box.dims[d].hi; --d) at[d] = box.dims[d].lo;
    if (d < 0) return;
  }
}

}  // namespace remesh::testing
