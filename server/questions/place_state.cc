// SPDX-License-Identifier: Apache-2.0
#include "server/questions/place_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/values/element_type.h"
#include "proto/convert/plan_proto.h"
#include "server/questions/device_places.h"

namespace remesh::server {

using planner::Box;
using proto::PlacedArray;
using proto::StateLayout;

namespace {

int64_t BytesOf(const Box& box, planner::ElementType type) {
  return (box.element_count() * planner::BitWidth(type) + 7) / 8;
}

// Fills the parts of all hosts, array by array.
class Placing {
 public:
  Placing(const StateLayout& layout, PlacedState& placed)
      : layout_(layout),
        placed_(placed),
        places_(DevicePlacesOf(layout.topology)),
        parts_(layout.topology.hosts.size()),
        locals_(layout.topology.hosts.size()) {}

  // Ends early once the budget is spent.
  absl::Status AddArray(int index, planner::Budget& budget) {
    const PlacedArray& array = layout_.arrays[index];
    AddName(array);
    for (const auto& [place, position] : PlacedPositions(array.placement.devices)) {
      if (budget.Spent()) return budget.Check();
      const absl::Span<const Box> boxes = planner::BoxesOf(*array.placement.layout, position);
      if (boxes.empty()) continue;
      placed_.total_shards += static_cast<int64_t>(boxes.size());
      if (placed_.total_shards > kShardsMax) return TooManyShards();
      for (size_t b = 0; b < boxes.size(); ++b) {
        AddShard({.array = index,
                  .local_device = place.local,
                  .position = position,
                  .box = static_cast<int32_t>(b)},
                 place.host, BytesOf(boxes[b], array.element_type));
      }
    }
    return absl::OkStatus();
  }

  void Finish() {
    for (size_t h = 0; h < locals_.size(); ++h) {
      if (parts_[h] == nullptr) continue;
      HostPart& part = *parts_[h];
      part.devices = {.device_ids = layout_.topology.hosts[h].device_ids,
                      .local_devices = {locals_[h].begin(), locals_[h].end()}};
    }
  }

 private:
  using PlacePositions = std::vector<std::pair<DevicePlace, int32_t>>;

  // Positions of a device list in the order of places; lists are shared by many arrays.
  const PlacePositions& PlacedPositions(const planner::DeviceListPtr& devices) {
    auto [found, added] = seated_.try_emplace(devices.get());
    if (added) {
      for (size_t p = 0; p < devices->size(); ++p) {
        found->second.push_back({places_.at((*devices)[p]), static_cast<int32_t>(p)});
      }
      std::sort(found->second.begin(), found->second.end());
    }
    return found->second;
  }

  void AddShard(const PlacedShard& shard, int32_t host, int64_t bytes) {
    HostPart*& part = parts_[host];
    if (part == nullptr) part = &placed_.hosts[layout_.topology.hosts[host].name];
    locals_[host].insert(shard.local_device);
    part->shards.push_back(shard);
    part->bytes = AddBytes(part->bytes, bytes);
    placed_.total_bytes = AddBytes(placed_.total_bytes, bytes);
  }

  void AddName(const PlacedArray& value) {
    v1::AssignedArray& array = *placed_.arrays.Add();
    array.set_name(value.name);
    *array.mutable_shape() = {value.shape.begin(), value.shape.end()};
    array.set_element_type(std::string(planner::Name(value.element_type)));
  }

  static absl::Status TooManyShards() {
    const std::string most = absl::StrCat(kShardsMax);
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("a state may have at most ", most, " shards"),
                     {.reason = "TOO_MANY_SHARDS", .metadata = {{"shards_max", most}}});
  }

  const StateLayout& layout_;
  PlacedState& placed_;
  const absl::flat_hash_map<int64_t, DevicePlace> places_;
  std::vector<HostPart*> parts_;           // per host; null without a shard
  std::vector<std::set<int32_t>> locals_;  // per host, devices with shards
  absl::flat_hash_map<const planner::DeviceList*, PlacePositions> seated_;
};

// Removes the hosts of which no array names a device, and the domains above no other host.
void KeepNamedHosts(StateLayout& layout) {
  std::map<std::string, std::set<int32_t>> named;
  AddNamedDevices(layout, {}, named);
  planner::Topology& topology = layout.topology;
  std::erase_if(topology.hosts, [&](const auto& host) { return !named.contains(host.name); });
  std::map<std::string, std::string> parent_of;
  for (const planner::Domain& domain : topology.domains) parent_of[domain.name] = domain.parent;
  std::set<std::string> above;
  for (const planner::Host& host : topology.hosts) {
    for (std::string domain = host.parent; !domain.empty() && above.insert(domain).second;) {
      domain = parent_of.at(domain);
    }
  }
  std::erase_if(topology.domains,
                [&](const planner::Domain& domain) { return !above.contains(domain.name); });
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PlacedState>> PlaceState(v1::StateSpec spec,
                                                              const planner::Topology* fallback,
                                                              planner::Budget& budget) {
  ASSIGN_OR_RETURN(StateLayout layout, proto::ToStateLayout(spec, fallback, budget));
  if (spec.topology().hosts().empty()) KeepNamedHosts(layout);
  return PlaceState(std::move(spec), std::move(layout), budget);
}

absl::StatusOr<std::shared_ptr<const PlacedState>> PlaceState(v1::StateSpec spec,
                                                              StateLayout layout,
                                                              planner::Budget& budget) {
  auto placed = std::make_shared<PlacedState>();
  placed->spec = std::move(spec);
  if (placed->spec.topology().hosts().empty()) {
    *placed->spec.mutable_topology() = proto::ToProto(layout.topology);
    placed->spec.mutable_topology()->set_from_workers(true);
  }
  Placing placing(layout, *placed);
  for (size_t a = 0; a < layout.arrays.size(); ++a) {
    RETURN_IF_ERROR(placing.AddArray(static_cast<int>(a), budget));
    if (budget.Spent()) return budget.Check();
  }
  placing.Finish();
  placed->layout = std::make_shared<const StateLayout>(std::move(layout));
  return placed;
}

void AddNamedDevices(const StateLayout& layout, const std::set<int64_t>& lost,
                     std::map<std::string, std::set<int32_t>>& named) {
  const absl::flat_hash_map<int64_t, DevicePlace> places = DevicePlacesOf(layout.topology);
  absl::flat_hash_set<const planner::DeviceList*> seen;
  for (const PlacedArray& array : layout.arrays) {
    if (!seen.insert(array.placement.devices.get()).second) continue;
    for (const int64_t id : *array.placement.devices) {
      if (lost.contains(id)) continue;
      const DevicePlace place = places.at(id);
      named[layout.topology.hosts[place.host].name].insert(place.local);
    }
  }
}

}  // namespace remesh::server
