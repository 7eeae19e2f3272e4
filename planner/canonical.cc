// SPDX-License-Identifier: Apache-2.0
#include "planner/canonical.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/canonical_tree.h"
#include "planner/fingerprint.h"
#include "planner/free_order.h"

namespace remesh {
namespace {

constexpr char kFormat[] = "1";

// What identifies a placement in one request: shared layouts and lists are looked at once.
using PlacementKey = std::tuple<const Layout*, const DeviceList*, MemoryKind>;

PlacementKey KeyOf(const Placement& p) { return {p.layout.get(), p.devices.get(), p.memory_kind}; }

// Positions of layouts renumbered so that position i is devices[i] of the sorted list `devices`.
Layout Renumbered(const Layout& layout, const std::vector<int32_t>& new_position) {
  Layout result{.shape = layout.shape,
                .device_count = layout.device_count,
                .partitions = layout.partitions,
                .subgroup_kind = layout.subgroup_kind};
  result.tile_of.assign(layout.device_count, -1);
  for (const Tile& tile : layout.tiles) {
    if (tile.boxes.empty() || tile.positions.empty()) continue;
    result.tiles.push_back(tile);
    for (int32_t& position : result.tiles.back().positions) {
      position = new_position[position];
      result.tile_of[position] = static_cast<int32_t>(result.tiles.size()) - 1;
    }
    std::sort(result.tiles.back().positions.begin(), result.tiles.back().positions.end());
  }
  return result;
}

bool IsIdentity(const std::vector<int32_t>& permutation) {
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<int32_t>(i)) return false;
  }
  return true;
}

class Canonicalizer {
 public:
  explicit Canonicalizer(const ReshardRequest& request) : request_(request) {}

  CanonicalizedRequest Run() {
    OrderArrays();
    LabelDevices();
    RenameTopology();
    RenameArrays();
    RenameOptions();
    if (request_.options.free_target_order) OrderTargets();
    result_.canonical.fingerprint = absl::StrCat(kFormat, "-", Fingerprint().Hex());
    return std::move(result_);
  }

 private:
  const Hash128& LayoutHash(const LayoutPtr& layout) {
    const auto [entry, inserted] = layout_hashes_.try_emplace(layout.get());
    if (inserted) entry->second = HashWithoutDevices(*layout);
    return entry->second;
  }

  // Arrays by what they are apart from devices, ties in request order.
  void OrderArrays() {
    std::vector<Hash128> labels;
    for (const ArraySpec& array : request_.arrays) {
      Hash128 label = Mixed({}, static_cast<uint64_t>(array.element_type));
      for (const Placement* p : {&array.source, &array.target}) {
        const Hash128& layout = LayoutHash(p->layout);
        label = Mixed(Mixed(label, layout.high), layout.low);
        label = Mixed(label, static_cast<uint64_t>(p->memory_kind));
      }
      labels.push_back(label);
    }
    std::vector<int32_t>& order = result_.binding.array_indices;
    order.resize(labels.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return labels[a] < labels[b]; });
    for (int32_t index : order) {
      result_.binding.array_names.push_back(request_.arrays[index].name);
    }
    array_labels_ = std::move(labels);
  }

  bool IsFree(bool is_target) const { return is_target && request_.options.free_target_order; }

  // The tile that the device at `position` holds, as a label. When the order is free, any device
  // may hold any tile.
  uint64_t RoleOf(const Placement& placement, size_t position, bool is_target) const {
    if (IsFree(is_target)) return 1;
    const int32_t tile = placement.layout->tile_of[position];
    if (tile < 0 || placement.layout->tiles[tile].boxes.empty()) return 1;
    return static_cast<uint64_t>(tile) + 2;
  }

  // Equal when two placements put the same tiles on the same devices, however listed.
  Hash128 PlacementHash(const Placement& placement, bool is_target) {
    const auto [entry, inserted] =
        placement_hashes_.try_emplace(std::make_pair(KeyOf(placement), is_target));
    if (!inserted) return entry->second;
    Hash128 sum = LayoutHash(placement.layout);
    for (size_t i = 0; i < placement.devices->size(); ++i) {
      const uint64_t id = static_cast<uint64_t>((*placement.devices)[i]);
      const Hash128 one = Mixed(Mixed({}, id), RoleOf(placement, i, is_target));
      sum.high += one.high;
      sum.low += one.low;
    }
    if (IsFree(is_target)) {  // the order of a list says which places of others go with its own
      for (int64_t id : *placement.devices) sum = Mixed(sum, static_cast<uint64_t>(id));
    }
    return entry->second = Mixed(sum, static_cast<uint64_t>(placement.memory_kind));
  }

  // A device's label: for each class of equal arrays in canonical order, which tiles it holds
  // before and after; when the order is free, after that only whether it is a target at all.
  void LabelDevices() {
    const absl::flat_hash_set<int64_t> lost(request_.options.lost_device_ids.begin(),
                                            request_.options.lost_device_ids.end());
    absl::flat_hash_set<std::pair<Hash128, Hash128>> seen;
    uint64_t class_count = 0;
    for (int32_t index : result_.binding.array_indices) {
      const ArraySpec& array = request_.arrays[index];
      Hash128 source = PlacementHash(array.source, false);
      source = Mixed(source, array_labels_[index].low);
      if (!seen.insert({source, PlacementHash(array.target, true)}).second) continue;
      ++class_count;
      for (bool is_target : {false, true}) {
        if (IsFree(is_target)) continue;
        const Placement& placement = is_target ? array.target : array.source;
        for (size_t i = 0; i < placement.devices->size(); ++i) {
          const int64_t id = (*placement.devices)[i];
          Hash128& label = labels_.try_emplace(id, Hash128{1, lost.contains(id)}).first->second;
          label = Mixed(Mixed(label, class_count * 2 + is_target), RoleOf(placement, i, is_target));
        }
      }
    }
    if (!request_.options.free_target_order) return;
    absl::flat_hash_set<int64_t> takers;
    absl::flat_hash_set<const DeviceList*> lists;
    for (const ArraySpec& array : request_.arrays) {
      if (!lists.insert(array.target.devices.get()).second) continue;
      for (int64_t id : *array.target.devices) {
        if (!takers.insert(id).second) continue;
        Hash128& label = labels_.try_emplace(id, Hash128{1, lost.contains(id)}).first->second;
        label = Mixed(label, 1);
      }
    }
  }

  void RenameTopology() {
    CanonicalTree tree = CanonicalizeTree(
        request_.topology, [&](int64_t id) { return labels_.contains(id); },
        [&](int64_t id) {
          const auto label = labels_.find(id);
          return label == labels_.end() ? Hash128{} : label->second;
        });
    for (size_t i = 0; i < tree.device_ids.size(); ++i) {
      canonical_of_[tree.device_ids[i]] = static_cast<int64_t>(i);
    }
    result_.canonical.request.topology = std::move(tree.topology);
    result_.binding.device_ids = std::move(tree.device_ids);
    result_.binding.host_names = std::move(tree.host_names);
    result_.binding.domain_names = std::move(tree.domain_names);
  }

  // Rising when `sort` is set, else in the caller's order.
  DeviceListPtr RenameDevices(const DeviceList& devices, bool sort,
                              std::vector<int32_t>& new_position) {
    std::vector<std::pair<int64_t, int32_t>> order;
    for (size_t i = 0; i < devices.size(); ++i) {
      order.emplace_back(canonical_of_.at(devices[i]), static_cast<int32_t>(i));
    }
    if (sort) std::sort(order.begin(), order.end());
    DeviceList sorted;
    new_position.resize(devices.size());
    for (const auto& [id, position] : order) {
      new_position[position] = static_cast<int32_t>(sorted.size());
      sorted.push_back(id);
    }
    auto& shared = lists_[sorted];
    if (shared == nullptr) shared = std::make_shared<const DeviceList>(std::move(sorted));
    return shared;
  }

  // The placement in canonical ids. Equal placements share their layout and their list.
  Placement Rename(const Placement& placement, bool is_target) {
    const std::pair<PlacementKey, bool> key = {KeyOf(placement), is_target};
    const auto known = renamed_.find(key);
    if (known != renamed_.end()) return known->second;
    const Hash128 hash = PlacementHash(placement, is_target);
    std::vector<int32_t> new_position;
    Placement renamed = placement;
    renamed.devices = RenameDevices(*placement.devices, !IsFree(is_target), new_position);
    const bool has_empty_tile =
        std::any_of(placement.layout->tiles.begin(), placement.layout->tiles.end(),
                    [](const Tile& tile) { return tile.boxes.empty(); });
    if (has_empty_tile || !IsIdentity(new_position)) {
      renamed.layout = std::make_shared<const Layout>(Renumbered(*placement.layout, new_position));
    }
    const auto [same, inserted] = by_hash_.try_emplace({hash, is_target}, renamed);
    if (!inserted && *same->second.layout == *renamed.layout &&
        *same->second.devices == *renamed.devices) {
      renamed = same->second;
    }
    return renamed_[key] = renamed;
  }

  void RenameArrays() {
    for (int32_t index : result_.binding.array_indices) {
      const ArraySpec& array = request_.arrays[index];
      result_.canonical.request.arrays.push_back({.name = "",
                                                  .shape = array.shape,
                                                  .element_type = array.element_type,
                                                  .source = Rename(array.source, false),
                                                  .target = Rename(array.target, true)});
    }
  }

  // Puts other devices in the places of the target lists, all lists alike.
  void OrderTargets() {
    ReshardRequest& request = result_.canonical.request;
    const std::vector<int64_t> taker = ChooseTargetOrder(request);
    absl::flat_hash_map<const DeviceList*, DeviceListPtr> ordered;  // lists_ keeps the keys
    for (ArraySpec& array : request.arrays) {
      DeviceListPtr& list = ordered[array.target.devices.get()];
      if (list == nullptr) {
        DeviceList devices;
        for (int64_t id : *array.target.devices) devices.push_back(taker[id]);
        list = std::make_shared<const DeviceList>(std::move(devices));
      }
      array.target.devices = list;
    }
  }

  void RenameOptions() {
    ReshardRequest& request = result_.canonical.request;
    request.options = request_.options;
    request.fallbacks = request_.fallbacks;
    std::vector<int64_t>& lost = request.options.lost_device_ids;
    std::erase_if(lost, [&](int64_t id) { return !labels_.contains(id); });
    for (int64_t& id : lost) id = canonical_of_.at(id);
    std::sort(lost.begin(), lost.end());
  }

  Hash128 Fingerprint() {
    Hasher hasher;
    hasher.AddText(kFormat);
    AddOptions(hasher);
    AddTopology(hasher);
    absl::flat_hash_map<PlacementKey, int64_t> number_of;
    for (const ArraySpec& array : result_.canonical.request.arrays) {
      hasher.Add(static_cast<int64_t>(array.element_type));
      for (const Placement* p : {&array.source, &array.target}) {
        const auto [entry, inserted] = number_of.try_emplace(KeyOf(*p), number_of.size());
        hasher.Add(entry->second);
        if (inserted) AddPlacement(*p, hasher);
      }
    }
    return hasher.Digest();
  }

  void AddOptions(Hasher& hasher) const {
    const ReshardRequest& request = result_.canonical.request;
    const PlanOptions& options = request.options;
    hasher.Add(options.window_bytes).Add(options.memory_limit_bytes).Add(options.donate);
    hasher.Add(options.free_target_order).Add(static_cast<int64_t>(options.strategy));
    hasher.Add(static_cast<int64_t>(options.lost_device_ids.size()));
    for (int64_t id : options.lost_device_ids) hasher.Add(id);
    hasher.Add(static_cast<int64_t>(request.fallbacks.size()));
    for (const Fallback& fallback : request.fallbacks) {
      hasher.Add(static_cast<int64_t>(fallback.kind)).AddText(fallback.location);
      hasher.Add(fallback.step);
    }
  }

  void AddTopology(Hasher& hasher) const {
    const Topology& topology = result_.canonical.request.topology;
    hasher.Add(static_cast<int64_t>(topology.domains.size()));
    for (const Domain& domain : topology.domains) {
      hasher.AddText(domain.parent).AddDouble(domain.egress_bytes_per_second);
      hasher.AddDouble(domain.ingress_bytes_per_second);
    }
    hasher.Add(static_cast<int64_t>(topology.hosts.size()));
    for (const Host& host : topology.hosts) {
      hasher.AddText(host.parent).AddDouble(host.nic_bytes_per_second).Add(host.nics);
      hasher.AddDouble(host.fabric_bytes_per_second);
      hasher.Add(static_cast<int64_t>(host.device_ids.size()));
      // A device that no list names holds its place but carries nothing.
      for (int64_t id : host.device_ids) {
        hasher.Add(labels_.contains(result_.binding.device_ids[id]));
      }
    }
  }

  void AddPlacement(const Placement& placement, Hasher& hasher) {
    hasher.AddHash(LayoutHash(placement.layout)).Add(static_cast<int64_t>(placement.memory_kind));
    hasher.Add(static_cast<int64_t>(placement.devices->size()));
    for (int64_t id : *placement.devices) hasher.Add(id);
    for (const Tile& tile : placement.layout->tiles) {
      for (int32_t position : tile.positions) hasher.Add(position);
    }
  }

  const ReshardRequest& request_;
  absl::flat_hash_map<const Layout*, Hash128> layout_hashes_;
  absl::flat_hash_map<std::pair<PlacementKey, bool>, Hash128> placement_hashes_;
  std::vector<Hash128> array_labels_;             // by the caller's index
  absl::flat_hash_map<int64_t, Hash128> labels_;  // by the caller's id, of every named device
  absl::flat_hash_map<int64_t, int64_t> canonical_of_;
  std::map<DeviceList, DeviceListPtr> lists_;
  absl::flat_hash_map<std::pair<PlacementKey, bool>, Placement> renamed_;
  absl::flat_hash_map<std::pair<Hash128, bool>, Placement> by_hash_;
  CanonicalizedRequest result_;
};

}  // namespace

absl::StatusOr<CanonicalizedRequest> Canonicalize(const ReshardRequest& request) {
  RETURN_IF_ERROR(ValidateRequest(request));
  return Canonicalizer(request).Run();
}

}  // namespace remesh
