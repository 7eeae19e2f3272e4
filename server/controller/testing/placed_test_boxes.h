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
    HostPart& part = placed->hosts[box.host];
    if (is_new) {
      devices->push_back(box.device);
      of_positions.emplace_back();
      part.devices = {.device_ids = {box.device}, .local_devices = {0}};
    }
    of_positions[position->second].push_back({.dims = {{.lo = box.lo, .hi = box.hi}}});
    v1::Box& of_shard = *part.assignment.add_shards()->mutable_box();
    of_shard.add_lo(box.lo);
    of_shard.add_hi(box.hi);
    ++placed->total_shards;
  }
  auto layout = std::make_shared<proto::StateLayout>();
  proto::PlacedArray& array = layout->arrays.emplace_back();
  array.name = "w";
  array.shape = {extent};
  array.placement.layout =
      std::make_shared<planner::Layout>(*planner::MakeBoxLayout({extent}, of_positions));
  array.placement.devices = devices;
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
