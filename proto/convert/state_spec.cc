// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/problems.h"
#include "base/status_macros.h"
#include "base/text/nearest.h"
#include "planner/values/coverage.h"
#include "planner/values/unknown_device.h"
#include "proto/convert/placed_arrays.h"
#include "proto/convert/plan_spec.h"
#include "proto/convert/shardings.h"

namespace remesh::proto {
namespace {

// The place of a device: the name of its host, and its index on the host.
struct DevicePlace {
  std::string host;
  int local = 0;

  friend bool operator==(const DevicePlace&, const DevicePlace&) = default;
};

absl::flat_hash_map<int64_t, DevicePlace> DevicePlaces(const v1::Topology& topology) {
  absl::flat_hash_map<int64_t, DevicePlace> places;
  for (const v1::Host& host : topology.hosts()) {
    for (int i = 0; i < host.device_ids_size(); ++i) places[host.device_ids(i)] = {host.name(), i};
  }
  return places;
}

// Checks that every device in both topologies is in the same place.
absl::Status CheckSameSeats(const v1::Topology& source, const v1::Topology& target) {
  if (source.hosts().empty()) {
    return InvalidField("topology.hosts", absl::StrCat(target.hosts_size(), " hosts"),
                        "must be empty, for the state uses the workers' own numbering");
  }
  const auto source_places = DevicePlaces(source);
  for (int h = 0; h < target.hosts_size(); ++h) {
    const v1::Host& host = target.hosts(h);
    for (int i = 0; i < host.device_ids_size(); ++i) {
      const auto found = source_places.find(host.device_ids(i));
      if (found == source_places.end() || found->second == DevicePlace{host.name(), i}) continue;
      return InvalidField(absl::StrCat("topology.hosts[", h, "].device_ids[", i, "]"),
                          absl::StrCat(host.device_ids(i)),
                          absl::StrCat("must be device ", found->second.local, " of host ",
                                       found->second.host, ", as in the state"));
    }
  }
  return absl::OkStatus();
}

// Checks each different layout and device list once.
class PlacementChecker {
 public:
  explicit PlacementChecker(const planner::Topology& topology) : topology_(topology) {
    for (const planner::Host& host : topology.hosts)
      devices_.insert(host.device_ids.begin(), host.device_ids.end());
  }

  absl::Status Check(const planner::Placement& placement, planner::Budget& budget) {
    if (checked_lists_.insert(placement.devices.get()).second) {
      for (const int64_t id : *placement.devices) {
        if (!devices_.contains(id)) {
          return planner::UnknownDevice("devices", id, topology_);
        }
      }
    }
    if (!checked_layouts_.insert(placement.layout.get()).second) return absl::OkStatus();
    return planner::CheckCovers(*placement.layout, {}, budget);
  }

 private:
  const planner::Topology& topology_;
  absl::flat_hash_set<int64_t> devices_;
  absl::flat_hash_set<const planner::DeviceList*> checked_lists_;
  absl::flat_hash_set<const planner::Layout*> checked_layouts_;
};

}  // namespace

absl::StatusOr<StateLayout> ToStateLayout(const v1::StateSpec& spec,
                                          const planner::Topology* fallback,
                                          planner::Budget& budget) {
  StateLayout layout;
  Problems problems;
  auto topology = ToTopology(spec.topology(), fallback);
  RETURN_IF_ERROR(problems.Note(AtField("topology", topology.status())));
  const bool has_topology = topology.ok();
  if (has_topology) layout.topology = *std::move(topology);
  if (spec.arrays().empty())
    RETURN_IF_ERROR(problems.Note(InvalidField("arrays", "", "must name an array")));
  Shardings shardings(budget);
  RETURN_IF_ERROR(problems.Note(shardings.SetNamed(spec.shardings(), spec.device_lists())));
  PlacementChecker checker(layout.topology);
  absl::flat_hash_set<std::string> names;
  layout.arrays.reserve(spec.arrays_size());
  for (int i = 0; i < spec.arrays_size(); ++i) {
    const v1::StateArray& array = spec.arrays(i);
    auto value = ToPlacedArray(array, i, "sharding", array.sharding(), shardings);
    RETURN_IF_ERROR(problems.Note(value.status()));
    if (!names.insert(array.name()).second) {
      RETURN_IF_ERROR(problems.Note(
          InvalidField(absl::StrCat("arrays[", i, "].name"), array.name(),
                       "is the name of an array before it: array names must be unique")));
    }
    RETURN_IF_ERROR(budget.Check());
    if (!value.ok() || !has_topology) continue;
    const absl::Status placed = checker.Check(value->placement, budget);
    RETURN_IF_ERROR(budget.Check());
    if (!placed.ok()) {
      RETURN_IF_ERROR(problems.Note(AtField(absl::StrCat("arrays[", i, "].sharding"), placed)));
    }
    layout.arrays.push_back(*std::move(value));
  }
  if (!problems.empty()) return problems.ToStatus();
  return layout;
}

namespace {

absl::Status UnknownArray(const std::string& field, const std::string& name,
                          const v1::StateSpec& state) {
  std::vector<std::string> names;
  for (const v1::StateArray& array : state.arrays()) names.push_back(array.name());
  return InvalidField(field, name,
                      absl::StrCat("must be an array of the state", KnownNames(name, names)));
}

// The key under which a map can take what another map calls `key`: itself, or kept.N. Keys do not
// grow with the number of moves.
template <typename Map>
std::string FreeKey(const Map& map, const std::string& key) {
  std::string free = key;
  for (int n = 1; map.contains(free); ++n) free = absl::StrCat("kept.", n);
  return free;
}

// Brings shardings of the state that stay into the spec after the move, with what they refer to.
// The targets may have other entries under the same keys.
class KeptShardings {
 public:
  KeptShardings(const v1::StateSpec& source, v1::StateSpec& result)
      : source_(source), result_(result) {}

  v1::Sharding Keep(v1::Sharding sharding) {
    if (sharding.has_ref()) {
      sharding.set_ref(KeepNamed(sharding.ref()));
    } else if (sharding.devices().has_ref()) {
      v1::DeviceList& devices = *sharding.mutable_devices();
      devices.set_ref(KeepList(devices.ref()));
    }
    return sharding;
  }

 private:
  std::string KeepNamed(const std::string& key) {
    const auto [kept, added] = shardings_.try_emplace(key);
    const auto found = source_.shardings().find(key);
    if (!added || found == source_.shardings().end()) return kept->second;
    kept->second = FreeKey(result_.shardings(), key);
    (*result_.mutable_shardings())[kept->second] = Keep(found->second);
    return kept->second;
  }

  std::string KeepList(const std::string& key) {
    const auto [kept, added] = lists_.try_emplace(key);
    const auto found = source_.device_lists().find(key);
    if (!added || found == source_.device_lists().end()) return kept->second;
    kept->second = FreeKey(result_.device_lists(), key);
    (*result_.mutable_device_lists())[kept->second] = found->second;
    return kept->second;
  }

  const v1::StateSpec& source_;
  v1::StateSpec& result_;
  std::map<std::string, std::string> shardings_, lists_;  // key in source_ -> key in result_
};

}  // namespace

absl::StatusOr<v1::StateSpec> ApplyTargets(const v1::StateSpec& source,
                                           const v1::Targets& targets) {
  v1::StateSpec result;
  *result.mutable_topology() = source.topology();
  if (!targets.topology().hosts().empty()) {
    RETURN_IF_ERROR(CheckSameSeats(source.topology(), targets.topology()));
    *result.mutable_topology() = targets.topology();
    result.mutable_topology()->clear_from_workers();  // the caller's
  }
  *result.mutable_shardings() = targets.shardings();
  *result.mutable_device_lists() = targets.device_lists();
  absl::flat_hash_map<std::string_view, int> index;
  index.reserve(source.arrays_size());
  result.mutable_arrays()->Reserve(source.arrays_size());
  for (int i = 0; i < source.arrays_size(); ++i) {
    index[source.arrays(i).name()] = i;
    v1::StateArray& array = *result.add_arrays();
    array.set_name(source.arrays(i).name());
    *array.mutable_shape() = source.arrays(i).shape();
    array.set_element_type(source.arrays(i).element_type());
  }
  Problems problems;
  for (int i = 0; i < targets.arrays_size(); ++i) {
    const auto field = [i] { return absl::StrCat("arrays[", i, "].name"); };
    const std::string& name = targets.arrays(i).name();
    const auto found = index.find(name);
    if (found == index.end()) {
      RETURN_IF_ERROR(problems.Note(UnknownArray(field(), name, source)));
      continue;
    }
    v1::StateArray& array = *result.mutable_arrays(found->second);
    if (array.has_sharding())
      RETURN_IF_ERROR(
          problems.Note(InvalidField(field(), name, "is listed more than once: list it once")));
    *array.mutable_sharding() = targets.arrays(i).sharding();
  }
  if (!problems.empty()) return problems.ToStatus();
  KeptShardings kept(source, result);
  for (int i = 0; i < source.arrays_size(); ++i) {
    v1::StateArray& array = *result.mutable_arrays(i);
    if (array.has_sharding()) continue;
    *array.mutable_sharding() = kept.Keep(source.arrays(i).sharding());
  }
  return result;
}

}  // namespace remesh::proto
