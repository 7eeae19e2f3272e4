// SPDX-License-Identifier: Apache-2.0
#include "server/questions/same_layout.h"

#include <string>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/questions/device_places.h"

namespace remesh::server {

using planner::DeviceList;
using planner::Placement;
using proto::PlacedArray;
using proto::StateLayout;

namespace {

absl::Status Differ(std::string_view what) {
  return absl::FailedPreconditionError(std::string(what));
}

absl::flat_hash_map<int64_t, int32_t> PositionsOf(const DeviceList& devices) {
  absl::flat_hash_map<int64_t, int32_t> positions;
  for (size_t p = 0; p < devices.size(); ++p) positions[devices[p]] = static_cast<int32_t>(p);
  return positions;
}

// Whether every device holds the same boxes, in the same subgroup, in both placements.
bool SamePlaces(const Placement& a, const Placement& b) {
  if (a.memory_kind != b.memory_kind || a.layout->subgroup_kind != b.layout->subgroup_kind)
    return false;
  const auto in_b = PositionsOf(*b.devices);
  size_t held = 0;
  for (size_t p = 0; p < a.devices->size(); ++p) {
    const int32_t tile = a.layout->tile_of[p];
    if (tile < 0 || a.layout->tiles[tile].boxes.empty()) continue;
    ++held;
    auto position = in_b.find((*a.devices)[p]);
    if (position == in_b.end()) return false;
    const int32_t other = b.layout->tile_of[position->second];
    if (other < 0 || b.layout->tiles[other].boxes != a.layout->tiles[tile].boxes ||
        b.layout->tiles[other].subgroup != a.layout->tiles[tile].subgroup) {
      return false;
    }
  }
  for (const int32_t tile : b.layout->tile_of)
    held -= tile >= 0 && !b.layout->tiles[tile].boxes.empty();
  return held == 0;
}

absl::Status CheckSameHosts(const StateLayout& a, const StateLayout& b) {
  const auto in_a = DevicePlacesOf(a.topology), in_b = DevicePlacesOf(b.topology);
  const auto is_same = [&](int64_t id) {
    const auto other = in_b.find(id);
    if (other == in_b.end()) return false;
    const DevicePlace place = in_a.at(id);
    return other->second.local == place.local &&
           b.topology.hosts[other->second.host].name == a.topology.hosts[place.host].name;
  };
  absl::flat_hash_set<const DeviceList*> seen;
  for (const PlacedArray& array : a.arrays) {
    if (!seen.insert(array.placement.devices.get()).second) continue;
    for (const int64_t id : *array.placement.devices) {
      if (!is_same(id)) return Differ(absl::StrCat("device ", id, " is another one"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSameLayout(const StateLayout& a, const StateLayout& b) {
  if (a.arrays.size() != b.arrays.size()) {
    return Differ(absl::StrCat(a.arrays.size(), " arrays, not ", b.arrays.size()));
  }
  RETURN_IF_ERROR(CheckSameHosts(a, b));
  absl::flat_hash_map<std::string, const PlacedArray*> in_b;
  for (const PlacedArray& array : b.arrays) in_b[array.name] = &array;
  using Pair = std::tuple<const planner::Layout*, const DeviceList*, const planner::Layout*,
                          const DeviceList*, planner::MemoryKind, planner::MemoryKind>;
  absl::flat_hash_set<Pair> same;  // many arrays share few pairs of placements
  for (const PlacedArray& array : a.arrays) {
    auto found = in_b.find(array.name);
    if (found == in_b.end())
      return Differ(absl::StrCat("array ", array.name, " is not in the state"));
    const PlacedArray& other = *found->second;
    if (array.shape != other.shape || array.element_type != other.element_type) {
      return Differ(absl::StrCat("array ", array.name, " has another shape or type"));
    }
    const Placement &p = array.placement, &q = other.placement;
    const Pair pair = {p.layout.get(),  p.devices.get(), q.layout.get(),
                       q.devices.get(), p.memory_kind,   q.memory_kind};
    if (same.contains(pair)) continue;
    if (!SamePlaces(p, q)) return Differ(absl::StrCat("array ", array.name, " is elsewhere"));
    same.insert(pair);
  }
  return absl::OkStatus();
}

}  // namespace remesh::server
