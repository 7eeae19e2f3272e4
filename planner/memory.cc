// SPDX-License-Identifier: Apache-2.0
#include "planner/memory.h"

#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace remesh {
namespace {

// Adds the shards of `placement`, `copies` times, to every device's bytes.
void AddShards(const Placement& placement, int element_bits, int64_t copies,
               std::vector<int64_t>& bytes) {
  for (const Tile& tile : placement.layout->tiles) {
    int64_t shard = 0;
    for (const Box& box : tile.boxes) shard += (box.element_count() * element_bits + 7) / 8;
    for (int32_t position : tile.positions) bytes[(*placement.devices)[position]] += shard * copies;
  }
}

// Bytes of all arrays before (source) or after; arrays that share a placement are looked at once.
std::vector<int64_t> ShardBytes(const ReshardRequest& request, Placement ArraySpec::*side,
                                const Network& network) {
  using Key = std::tuple<const Layout*, const DeviceList*, int>;
  absl::flat_hash_map<Key, size_t> index_of;
  std::vector<std::tuple<const Placement*, int, int64_t>> counted;  // placement, width, arrays
  for (const ArraySpec& array : request.arrays) {
    const Placement& placement = array.*side;
    const int bits = BitWidth(array.element_type);
    const auto [entry, inserted] = index_of.try_emplace(
        Key{placement.layout.get(), placement.devices.get(), bits}, counted.size());
    if (inserted) counted.emplace_back(&placement, bits, 0);
    ++std::get<2>(counted[entry->second]);
  }
  std::vector<int64_t> bytes(network.device_count(), 0);
  for (const auto& [placement, bits, copies] : counted) AddShards(*placement, bits, copies, bytes);
  return bytes;
}

std::vector<int64_t> StagingBytes(const Network& network, const Plan::Rep& rep) {
  std::vector<int64_t> bytes(network.device_count(), 0);
  for (const Move& move : rep.moves) {
    if (move.to_space == Space::kStaging) bytes[move.to_device] += (move.hi - move.lo + 7) / 8;
  }
  return bytes;
}

}  // namespace

std::vector<int64_t> PeakBytes(const ReshardRequest& canonical, const Network& network,
                               const Plan::Rep& rep) {
  std::vector<int64_t> peak = ShardBytes(canonical, &ArraySpec::source, network);
  const std::vector<int64_t> target = ShardBytes(canonical, &ArraySpec::target, network);
  const std::vector<int64_t> staging = StagingBytes(network, rep);
  for (int32_t d = 0; d < network.device_count(); ++d) {
    peak[d] = network.lost[d] ? 0 : peak[d] + target[d] + staging[d];
  }
  return peak;
}

}  // namespace remesh
