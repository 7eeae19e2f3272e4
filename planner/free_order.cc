// SPDX-License-Identifier: Apache-2.0
#include "planner/free_order.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "planner/assignment.h"
#include "planner/atoms.h"
#include "planner/network.h"

namespace remesh {
namespace {

// Pairs of holder and position looked at, at most: above it the order is left alone.
constexpr int64_t kPairsMax = int64_t{1} << 24;

// Bits that the device list[right] would keep at position `left`.
std::vector<WeightedEdge> KeptBits(const Atoms& atoms, const std::vector<int32_t>& position_of) {
  std::map<std::pair<int32_t, int32_t>, int64_t> kept;
  int64_t pairs = 0;
  for (const Sub& sub : atoms.subs) {
    if (!sub.same_memory) continue;
    const Group& holders = atoms.groups[sub.holders];
    const Group& needers = atoms.groups[sub.needers];
    pairs += static_cast<int64_t>(holders.size() * needers.size());
    if (pairs > kPairsMax) return {};
    for (int32_t holder : holders) {
      if (position_of[holder] < 0) continue;
      for (int32_t needer : needers) kept[{position_of[needer], position_of[holder]}] += sub.bits;
    }
  }
  std::vector<WeightedEdge> edges;
  for (const auto& [pair, bits] : kept) edges.push_back({pair.first, pair.second, bits});
  return edges;
}

}  // namespace

DeviceList ChooseTargetOrder(const ReshardRequest& request) {
  const DeviceList& devices = *request.arrays.front().target.devices;
  const Network network = MakeNetwork(request);
  const auto atoms = MakeAtoms(request, network);
  if (!atoms.ok()) return devices;
  std::vector<int32_t> position_of(network.device_count(), -1);
  for (size_t i = 0; i < devices.size(); ++i) position_of[devices[i]] = static_cast<int32_t>(i);
  const int32_t count = static_cast<int32_t>(devices.size());
  const std::vector<int32_t> matching =
      MaxWeightMatching(count, count, KeptBits(*atoms, position_of));
  std::vector<bool> taken(count, false);
  for (int32_t right : matching) {
    if (right >= 0) taken[right] = true;
  }
  DeviceList order;
  int32_t spare = 0;
  for (int32_t right : matching) {
    if (right < 0) {
      while (taken[spare]) ++spare;
      right = spare++;
    }
    order.push_back(devices[right]);
  }
  return order;
}

}  // namespace remesh
