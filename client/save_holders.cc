// SPDX-License-Identifier: Apache-2.0
#include "client/save_holders.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "client/job_saves.h"
#include "planner/values/coverage.h"
#include "planner/values/element_type.h"
#include "proto/convert/plan_spec.h"

namespace remesh::client {
namespace {

using Hosts = std::set<std::string>;
using HostOf = absl::flat_hash_map<int64_t, std::string>;

int64_t BytesOf(const planner::Box& box, planner::ElementType type) {
  return (box.element_count() * planner::BitWidth(type) + 7) / 8;
}

HostOf HostsByDevice(const planner::Topology& topology) {
  HostOf hosts;
  for (const planner::Host& host : topology.hosts) {
    for (const int64_t id : host.device_ids) hosts[id] = host.name;
  }
  return hosts;
}

// Whether the boxes on hosts other than `lost` cover the array.
bool CoversWithout(const planner::Placement& placement, const HostOf& host_of, const Hosts& lost) {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < placement.devices->size(); ++i) {
    const auto host = host_of.find((*placement.devices)[i]);
    if (host == host_of.end() || lost.contains(host->second)) {
      positions.push_back(static_cast<int32_t>(i));
    }
  }
  return positions.empty() || planner::CheckCovers(*placement.layout, positions).ok();
}

// Arrays with the same layout on the same devices are covered alike: one of each.
std::vector<planner::Placement> DifferentPlacements(const proto::StateLayout& layout) {
  std::set<std::pair<const planner::Layout*, const planner::DeviceList*>> seen;
  std::vector<planner::Placement> different;
  for (const proto::PlacedArray& array : layout.arrays) {
    const planner::Placement& placement = array.placement;
    if (seen.insert({placement.layout.get(), placement.devices.get()}).second) {
      different.push_back(placement);
    }
  }
  return different;
}

std::map<std::string, int64_t> BytesByHost(const proto::StateLayout& layout,
                                           const HostOf& host_of) {
  std::map<std::string, int64_t> bytes;
  for (const proto::PlacedArray& array : layout.arrays) {
    const planner::Placement& placement = array.placement;
    for (int32_t i = 0; i < placement.layout->device_count; ++i) {
      const auto host = host_of.find((*placement.devices)[i]);
      if (host == host_of.end()) continue;
      for (const planner::Box& box : planner::BoxesOf(*placement.layout, i)) {
        bytes[host->second] += BytesOf(box, array.element_type);
      }
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<SaveHolders> HoldersOf(const v1::State& state) {
  ASSIGN_OR_RETURN(const proto::StateLayout layout,
                   proto::ToStateLayout(state.spec(), /*fallback=*/nullptr));
  const HostOf host_of = HostsByDevice(layout.topology);
  const std::vector<planner::Placement> placements = DifferentPlacements(layout);
  const auto covers_without = [&](const Hosts& lost) {
    return std::all_of(placements.begin(), placements.end(), [&](const auto& placement) {
      return CoversWithout(placement, host_of, lost);
    });
  };
  SaveHolders holders{.bytes = BytesByHost(layout, host_of), .covered = IsCovered(state)};
  if (!holders.covered) return holders;
  const Hosts away(state.lost_hosts().begin(), state.lost_hosts().end());
  for (const auto& [host, bytes] : holders.bytes) {
    if (away.contains(host)) continue;
    Hosts lost = away;
    lost.insert(host);
    if (!covers_without(lost)) holders.needed.insert(host);
  }
  return holders;
}

}  // namespace remesh::client
