// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_size.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace remesh {
namespace {

int64_t Boxes(const Layout& layout) {
  int64_t boxes = 0;
  for (const Tile& tile : layout.tiles) boxes += std::max<int64_t>(1, std::ssize(tile.boxes));
  return boxes;
}

}  // namespace

int64_t PairsOfBoxes(const ReshardRequest& request) {
  using Pair = std::tuple<const Layout*, const DeviceList*, const Layout*, const DeviceList*>;
  std::set<Pair> seen;
  int64_t pairs = 0;
  for (const ArraySpec& array : request.arrays) {
    const Placement& source = array.source;
    const Placement& target = array.target;
    const bool is_new = seen.insert({source.layout.get(), source.devices.get(), target.layout.get(),
                                     target.devices.get()})
                            .second;
    if (is_new) pairs += Boxes(*source.layout) * Boxes(*target.layout);
  }
  return pairs;
}

}  // namespace remesh
