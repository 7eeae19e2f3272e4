// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/controller/values/placed.h"

namespace remesh::server {

// A box of the only array, of one dimension, on the only device of a host.
struct TestBox {
  std::string host;
  int64_t device = 0;
  int64_t lo = 0, hi = 0;
};

// A state of one array of `extent` elements of u8, with its layout as the planner knows it.
inline std::shared_ptr<const PlacedState> PlaceBoxes(int64_t extent,
                                                     const std::vector<TestBox>& boxes) {
  auto placed = std::make_shared<PlacedState>();
  auto devices = std::make_shared<planner::DeviceList>();
  std::vector<std::vector<planner::Box>> of_positions;
  std::map<std::string, size_t> positions;
  for (const TestBox& box : boxes) {
    const auto [position, is_new] = positions.try_emplace(box.host, of_positions.size());
    if (is_new) {
      devices->push_back(box.device);
      of_positions.emplace_back();
      placed->hosts[box.host].devices = {.device_ids = {box.device}, .local_devices = {0}};
    }
    of_positions[position->second].push_back({.dims = {{.lo = box.lo, .hi = box.hi}}});
  }
  auto layout = std::make_shared<proto::StateLayout>();
  proto::PlacedArray& array = layout->arrays.emplace_back();
  array.name = "w";
  array.shape = {extent};
  array.placement.layout =
      std::make_shared<planner::Layout>(*planner::MakeBoxLayout({extent}, of_positions));
  array.placement.devices = devices;
  for (const auto& [host, position] : positions) {
    const auto at = static_cast<int32_t>(position);
    const size_t boxes = planner::BoxesOf(*array.placement.layout, at).size();
    for (size_t b = 0; b < boxes; ++b) {
      placed->hosts[host].shards.push_back({.position = at, .box = static_cast<int32_t>(b)});
    }
    placed->total_shards += static_cast<int64_t>(boxes);
  }
  placed->layout = layout;
  return placed;
}

// As above; the array ends where the last box ends.
inline std::shared_ptr<const PlacedState> PlaceBoxes(const std::vector<TestBox>& boxes) {
  int64_t extent = 0;
  for (const TestBox& box : boxes) extent = std::max(extent, box.hi);
  return PlaceBoxes(extent, boxes);
}

}  // namespace remesh::server
