// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_size.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace remesh::server {

using planner::Layout;

namespace {

int64_t Boxes(const Layout& layout) {
  int64_t boxes = 0;
  for (const planner::Tile& tile : layout.tiles)
    boxes += std::max<int64_t>(1, std::ssize(tile.boxes));
  return boxes;
}

}  // namespace

int64_t PairsOfBoxes(const planner::ReshardRequest& request) {
  using Pair = std::tuple<const Layout*, const planner::DeviceList*, const Layout*,
                          const planner::DeviceList*>;
  std::set<Pair> seen;
  int64_t pairs = 0;
  for (const planner::ArraySpec& array : request.arrays) {
    const planner::Placement& source = array.source;
    const planner::Placement& target = array.target;
    const bool is_new = seen.insert({source.layout.get(), source.devices.get(), target.layout.get(),
                                     target.devices.get()})
                            .second;
    if (is_new) pairs += Boxes(*source.layout) * Boxes(*target.layout);
  }
  return pairs;
}

}  // namespace remesh::server
