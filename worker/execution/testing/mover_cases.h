// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "worker/execution/testing/cluster.h"

namespace remesh::worker {

// Cuts [0, extent) of dimension `dim` in `parts` as XLA does.
inline std::vector<TestShard> Cut(const TestCase& c, int array, int dim, std::vector<int> devices) {
  std::vector<TestShard> shards;
  const planner::Box whole = planner::Box::Whole(c.arrays[array].shape);
  const int64_t size = whole.dims[dim].size(), parts = static_cast<int64_t>(devices.size());
  const int64_t tile = (size + parts - 1) / parts;
  for (int64_t p = 0; p < parts; ++p) {
    planner::Box box = whole;
    box.dims[dim] = {std::min(p * tile, size), std::min((p + 1) * tile, size)};
    if (!box.empty()) shards.push_back({array, devices[p], box});
  }
  return shards;
}

inline void Append(std::vector<TestShard>& to, std::vector<TestShard> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Several arrays from rows to columns; uneven, sub-byte, and one that every device ends up with.
inline TestCase RowsToColumns(int hosts, int windows) {
  TestCase c;
  c.hosts = hosts;
  c.windows = windows;
  c.arrays = {{"w", {37, 53}, "f32"},
              {"q", {9, 13}, "s4"},
              {"b", {31}, "bf16"},
              {"p", {5, 3}, "u2"},
              {"s", {}, "f64"}};
  std::vector<int> devices, reversed;
  for (int d = 0; d < hosts * 2; ++d) devices.push_back(d);
  reversed.assign(devices.rbegin(), devices.rend());
  for (const int array : {0, 1, 3}) {
    Append(c.source, Cut(c, array, 0, devices));
    Append(c.target, Cut(c, array, 1, reversed));
  }
  Append(c.source, Cut(c, 2, 0, devices));
  for (const int d : devices) c.target.push_back({2, d, planner::Box::Whole(c.arrays[2].shape)});
  c.source.push_back({4, 1, planner::Box{}});
  for (const int d : devices) c.target.push_back({4, d, planner::Box{}});
  AddNaiveOperations(c);
  return c;
}

}  // namespace remesh::worker
