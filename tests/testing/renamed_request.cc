// SPDX-License-Identifier: Apache-2.0
// Renamed(): the same request under other names.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "tests/testing/random_request.h"

namespace remesh::testing {

using planner::Placement;
using planner::ReshardRequest;

namespace {

std::vector<int32_t> RandomPermutation(Random& random, size_t size) {
  std::vector<int32_t> permutation(size);
  std::iota(permutation.begin(), permutation.end(), 0);
  for (size_t i = size; i > 1; --i) {
    std::swap(permutation[i - 1], permutation[Uniform(random, 0, static_cast<int64_t>(i) - 1)]);
  }
  return permutation;
}

template <typename T>
void Permute(Random& random, std::vector<T>& items) {
  std::vector<T> permuted;
  for (int32_t i : RandomPermutation(random, items.size())) permuted.push_back(items[i]);
  items = std::move(permuted);
}

// Position i of the placement becomes position to[i].
Placement Moved(const Placement& placement, const std::vector<int32_t>& to,
                const std::map<int64_t, int64_t>& new_id) {
  Placement moved = placement;
  planner::DeviceList devices(to.size());
  for (size_t i = 0; i < to.size(); ++i) devices[to[i]] = new_id.at((*placement.devices)[i]);
  moved.devices = std::make_shared<const planner::DeviceList>(std::move(devices));
  planner::Layout layout = *placement.layout;
  for (size_t i = 0; i < to.size(); ++i) layout.tile_of[to[i]] = placement.layout->tile_of[i];
  planner::IndexPositions(layout);
  moved.layout = std::make_shared<const planner::Layout>(std::move(layout));
  return moved;
}

}  // namespace

ReshardRequest Renamed(Random& random, const ReshardRequest& request, bool arrays) {
  ReshardRequest renamed = request;
  std::map<int64_t, int64_t> new_id;
  std::vector<int64_t> ids;
  for (const planner::Host& host : request.topology.hosts) {
    for (int64_t id : host.device_ids) {
      new_id[id] = static_cast<int64_t>(ids.size());
      ids.push_back(id);
    }
  }
  const std::vector<int32_t> permutation = RandomPermutation(random, ids.size());
  for (auto& [id, fresh] : new_id) fresh = 5000 + 3 * permutation[fresh];
  for (planner::Host& host : renamed.topology.hosts) {
    host.name = "other-" + host.name;
    if (!host.parent.empty()) host.parent = "other-" + host.parent;
    for (int64_t& id : host.device_ids) id = new_id.at(id);
  }
  for (planner::Domain& domain : renamed.topology.domains) {
    domain.name = "other-" + domain.name;
    if (!domain.parent.empty()) domain.parent = "other-" + domain.parent;
  }
  Permute(random, renamed.topology.hosts);
  Permute(random, renamed.topology.domains);
  for (planner::ArraySpec& array : renamed.arrays) {
    array.name = "other-" + array.name;
    for (Placement* p : {&array.source, &array.target}) {
      std::vector<int32_t> to = RandomPermutation(random, p->devices->size());
      // Positions are all that is left of the target when its order is free.
      const bool keeps_positions = p == &array.target && request.options.free_target_order;
      if (keeps_positions) std::iota(to.begin(), to.end(), 0);
      *p = Moved(*p, to, new_id);
    }
  }
  for (int64_t& id : renamed.options.lost_device_ids) id = new_id.at(id);
  Permute(random, renamed.options.lost_device_ids);
  if (arrays) Permute(random, renamed.arrays);
  return renamed;
}

}  // namespace remesh::testing
