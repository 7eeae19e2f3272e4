// SPDX-License-Identifier: Apache-2.0
#include "planner/values/request.h"

#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/problems.h"
#include "base/status_macros.h"
#include "planner/values/coverage.h"
#include "planner/values/unknown_device.h"

namespace remesh::planner {
namespace {

// What devices that hold parts of a whole are called, and how to make the whole: "manual(2)" or
// "unreduced[sum](4)".
std::string HowToReduce(const std::string& kind) {
  if (absl::StartsWith(kind, "manual")) {
    return "holds values that differ between devices (manual, as inside jax.shard_map), and remesh "
           "does not know how they make the whole: move the array that shard_map returns, with the "
           "sharding of its out_specs";
  }
  return "holds partial results (Partial in DTensor, unreduced in JAX and XLA), and remesh moves "
         "data but does not reduce it: reduce first, with "
         "DTensor.redistribute(placements=[Replicate()]) or [Shard(0)], jax.lax.psum, or "
         "jax.reshard to a PartitionSpec without unreduced";
}

absl::Status OtherSubgroups(const Layout& source, const Layout& target) {
  if (target.subgroup_kind.empty())
    return InvalidField("source", source.subgroup_kind, HowToReduce(source.subgroup_kind));
  if (source.subgroup_kind.empty()) {
    return InvalidField("target", target.subgroup_kind,
                        "holds partial results, but the source does not: use Shard(DIM) or "
                        "Replicate() for DTensor, or a sharding that is neither manual nor "
                        "unreduced");
  }
  return InvalidField(
      "target", target.subgroup_kind,
      absl::StrCat("must hold the same partial results as the source, \"", source.subgroup_kind,
                   "\": remesh moves data but does not reduce it"));
}

// Checks the parts of a request; shared layouts and device lists are checked once.
class Checker {
 public:
  Checker(const ReshardRequest& request, Budget& budget) : request_(request), budget_(budget) {}

  absl::Status Check() {
    RETURN_IF_ERROR(AtField("topology", ValidateTopology(request_.topology)));
    size_t device_count = 0;
    for (const Host& host : request_.topology.hosts) device_count += host.device_ids.size();
    devices_.reserve(device_count);
    for (const Host& host : request_.topology.hosts) {
      devices_.insert(host.device_ids.begin(), host.device_ids.end());
    }
    RETURN_IF_ERROR(AtField("options", CheckOptions()));
    RETURN_IF_ERROR(CheckFallbacks());
    if (request_.arrays.empty()) return InvalidField("arrays", "", "must name an array");
    names_.reserve(request_.arrays.size());
    Problems problems;
    for (size_t i = 0; i < request_.arrays.size(); ++i) {
      RETURN_IF_ERROR(problems.Note(AtIndex("arrays", i, CheckArray(request_.arrays[i]))));
    }
    return problems.ToStatus();
  }

 private:
  absl::Status CheckOptions() {
    const PlanOptions& options = request_.options;
    if (options.window_bytes < kWindowBytesMin) {
      return InvalidField("window_bytes", absl::StrCat(options.window_bytes),
                          absl::StrCat("must be at least ", kWindowBytesMin));
    }
    if (options.memory_limit_bytes < 0) {
      return InvalidField("memory_limit_bytes", absl::StrCat(options.memory_limit_bytes),
                          "must be >= 0");
    }
    for (size_t i = 0; i < options.lost_device_ids.size(); ++i) {
      RETURN_IF_ERROR(
          AtIndex("lost_device_ids", i, CheckDevice(options.lost_device_ids[i], lost_)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckFallbacks() const {
    for (size_t i = 0; i < request_.fallbacks.size(); ++i) {
      const Fallback& fallback = request_.fallbacks[i];
      const std::string field = absl::StrCat("fallbacks[", i, "]");
      if (fallback.location.empty()) {
        return InvalidField(field + ".location", "", "must not be empty");
      }
      if (fallback.step < 0) {
        return InvalidField(field + ".step", absl::StrCat(fallback.step), "must be >= 0");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckArray(const ArraySpec& array) {
    if (array.name.empty()) return InvalidField("name", array.name, "must not be empty");
    if (!names_.insert(array.name).second) {
      return InvalidField("name", array.name,
                          "is the name of an array before it: array names must be unique");
    }
    RETURN_IF_ERROR(ValidateShape(array.shape, BitWidth(array.element_type)));
    Problems problems;
    RETURN_IF_ERROR(problems.Note(AtField("source", CheckPlacement(array, array.source))));
    RETURN_IF_ERROR(problems.Note(AtField("target", CheckPlacement(array, array.target))));
    if (!problems.empty()) return problems.ToStatus();
    const bool new_pair = checked_arrays_
                              .insert({array.source.layout.get(), array.source.devices.get(),
                                       array.target.layout.get(), array.target.devices.get()})
                              .second;
    if (new_pair) {
      RETURN_IF_ERROR(AtField("target", CheckTargetIsAlive(array.target)));
      RETURN_IF_ERROR(AtField("source", CheckSource(*array.source.layout)));
      RETURN_IF_ERROR(CheckSubgroups(*array.source.layout, *array.target.layout));
    }
    return CountBits(array);
  }

  // Keeps what all devices hold before and after below kHeldBitsMax.
  absl::Status CountBits(const ArraySpec& array) {
    const __int128 elements =
        HeldElements(*array.source.layout) + HeldElements(*array.target.layout);
    held_bits_ += elements * BitWidth(array.element_type);
    if (held_bits_ < kHeldBitsMax) return absl::OkStatus();
    return InvalidField("shape", absl::StrCat("[", absl::StrJoin(array.shape, ","), "]"),
                        "makes what all devices hold before and after 2^60 bits or more");
  }

  // The elements that all devices of a layout hold together, replicas counted.
  __int128 HeldElements(const Layout& layout) {
    const auto [entry, is_new] = held_elements_.try_emplace(&layout, 0);
    if (!is_new) return entry->second;
    for (size_t t = 0; t < layout.tiles.size(); ++t) {
      for (const Box& box : layout.tiles[t].boxes) {
        entry->second += __int128{box.element_count()} * layout.PositionsOf(t).size();
      }
    }
    return entry->second;
  }

  absl::Status CheckPlacement(const ArraySpec& array, const Placement& placement) {
    if (placement.layout == nullptr) return InvalidField("layout", "", "must be given");
    if (placement.devices == nullptr || placement.devices->empty()) {
      return InvalidField("devices", "", "must name a device");
    }
    RETURN_IF_ERROR(CheckDevices(placement.devices));
    const Layout& layout = *placement.layout;
    if (layout.shape != array.shape) {
      return InvalidField(
          "layout", absl::StrCat("[", absl::StrJoin(layout.shape, ","), "]"),
          absl::StrCat("must have the array's shape [", absl::StrJoin(array.shape, ","), "]"));
    }
    if (layout.device_count != static_cast<int64_t>(placement.devices->size())) {
      return InvalidField("devices", absl::StrCat(placement.devices->size(), " devices"),
                          absl::StrCat("must be ", layout.device_count, " as the layout has"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckDevices(const DeviceListPtr& devices) {
    if (!checked_devices_.insert(devices.get()).second) return absl::OkStatus();
    absl::flat_hash_set<int64_t> seen;
    seen.reserve(devices->size());
    if (devices->size() > devices_.size()) return TooManyDevices(devices->size());
    for (size_t i = 0; i < devices->size(); ++i) {
      RETURN_IF_ERROR(AtIndex("devices", i, CheckDevice((*devices)[i], seen)));
    }
    return absl::OkStatus();
  }

  absl::Status TooManyDevices(size_t count) const {
    return InvalidField(
        "devices", absl::StrCat(count, " devices"),
        absl::StrCat("must be devices of the topology, which has only ", devices_.size(),
                     ": use a smaller mesh or fewer devices, or add devices to the "
                     "topology"));
  }

  absl::Status CheckDevice(int64_t id, absl::flat_hash_set<int64_t>& seen) const {
    if (!devices_.contains(id)) {
      return UnknownDevice("", id, request_.topology);
    }
    if (!seen.insert(id).second) {
      return InvalidField("", absl::StrCat(id), "is listed more than once: list each device once");
    }
    return absl::OkStatus();
  }

  absl::Status CheckTargetIsAlive(const Placement& target) {
    if (lost_.empty() || !checked_targets_.insert(target.devices.get()).second) {
      return absl::OkStatus();
    }
    for (size_t i = 0; i < target.devices->size(); ++i) {
      if (lost_.contains((*target.devices)[i])) {
        return InvalidField(absl::StrCat("devices[", i, "]"), absl::StrCat((*target.devices)[i]),
                            "is lost and cannot be a target");
      }
    }
    return absl::OkStatus();
  }

  // The source counts the shards of lost devices too: boxes that only they hold are missing, not
  // uncovered.
  absl::Status CheckSource(const Layout& layout) {
    if (!checked_sources_.insert(&layout).second) return absl::OkStatus();
    return CheckCovers(layout, {}, budget_);
  }

  absl::Status CheckSubgroups(const Layout& source, const Layout& target) {
    if (!checked_pairs_.insert({&source, &target}).second) return absl::OkStatus();
    if (source.subgroup_kind != target.subgroup_kind) return OtherSubgroups(source, target);
    const std::set<int64_t> held = SubgroupsOf(source);
    for (int64_t subgroup : SubgroupsOf(target)) {
      if (held.contains(subgroup)) continue;
      return InvalidField("target.subgroups", absl::StrCat(subgroup),
                          "must be a subgroup of the source too");
    }
    return absl::OkStatus();
  }

  static std::set<int64_t> SubgroupsOf(const Layout& layout) {
    std::set<int64_t> subgroups;
    for (const Tile& tile : layout.tiles) subgroups.insert(tile.subgroup);
    return subgroups;
  }

  const ReshardRequest& request_;
  Budget& budget_;
  absl::flat_hash_set<int64_t> devices_;
  absl::flat_hash_set<int64_t> lost_;
  __int128 held_bits_ = 0;
  absl::flat_hash_map<const Layout*, __int128> held_elements_;
  absl::flat_hash_set<const DeviceList*> checked_devices_;
  absl::flat_hash_set<const DeviceList*> checked_targets_;
  absl::flat_hash_set<const Layout*> checked_sources_;
  absl::flat_hash_set<std::pair<const Layout*, const Layout*>> checked_pairs_;
  absl::flat_hash_set<
      std::tuple<const Layout*, const DeviceList*, const Layout*, const DeviceList*>>
      checked_arrays_;
  absl::flat_hash_set<std::string_view> names_;
};

}  // namespace

absl::Status ValidateRequest(const ReshardRequest& request, Budget& budget) {
  return Checker(request, budget).Check();
}

}  // namespace remesh::planner
