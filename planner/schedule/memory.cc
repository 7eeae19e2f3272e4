// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/memory.h"

#include <algorithm>
#include <map>
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

// Bits on one device over time: `base` at first, then ramps. A ramp changes it by `bits` over the K
// cycles after `start`.
class Ramps {
 public:
  void Add(int64_t start, int64_t bits) { bits_from_[start] += bits; }

  // Most bits at any time, for ramps of `slices` cycles.
  int64_t Peak(int64_t base, int64_t slices) const {
    std::map<int64_t, int64_t> slope_changes;
    for (const auto& [start, bits] : bits_from_) {
      slope_changes[start] += bits;
      slope_changes[start + slices] -= bits;
    }
    __int128 above = 0;  // times `slices`, over base
    __int128 most = 0;
    int64_t slope = 0;
    int64_t at = 0;
    for (const auto& [cycle, change] : slope_changes) {
      above += static_cast<__int128>(slope) * (cycle - at);
      most = std::max(most, above);
      slope += change;
      at = cycle;
    }
    return base + static_cast<int64_t>((most + slices - 1) / slices);
  }

 private:
  std::map<int64_t, int64_t> bits_from_;
};

// What arrives and what is given back, device by device.
std::vector<Ramps> DonationRamps(const Network& network, const PlanDraft& draft) {
  std::vector<int32_t> depth(draft.segments.size(), 0);
  for (const Move& move : draft.moves) {
    depth[move.segment] = std::max<int32_t>(depth[move.segment], move.stage);
  }
  std::vector<Ramps> ramps(network.device_count());
  for (const Move& move : draft.moves) {
    const int64_t bits = move.hi - move.lo;
    ramps[move.to_device].Add(move.stage - 1, bits);
    if (move.to_space == Space::kStaging) ramps[move.to_device].Add(depth[move.segment], -bits);
  }
  for (size_t s = 0; s < draft.segments.size(); ++s) {
    const Sub& sub = draft.atoms.subs[draft.segments[s].sub];
    for (int32_t holder : draft.atoms.groups[sub.holders]) {
      ramps[holder].Add(depth[s], -draft.segments[s].size());
    }
  }
  return ramps;
}

std::vector<int64_t> PeakWithDonation(const std::vector<int64_t>& source, const Network& network,
                                      const PlanDraft& draft) {
  const std::vector<Ramps> ramps = DonationRamps(network, draft);
  std::vector<int64_t> peak(network.device_count(), 0);
  for (int32_t d = 0; d < network.device_count(); ++d) {
    if (!network.lost[d]) peak[d] = (ramps[d].Peak(source[d] * 8, draft.schedule.slices) + 7) / 8;
  }
  return peak;
}

}  // namespace

std::vector<int64_t> PeakBytes(const ReshardRequest& canonical, const Network& network,
                               const PlanDraft& draft) {
  const std::vector<int64_t> source = ShardBytes(canonical, &ArraySpec::source, network);
  if (canonical.options.donate) return PeakWithDonation(source, network, draft);
  std::vector<int64_t> peak = ShardBytes(canonical, &ArraySpec::target, network);
  for (const Move& move : draft.moves) {
    if (move.to_space == Space::kStaging) peak[move.to_device] += (move.hi - move.lo + 7) / 8;
  }
  for (int32_t d = 0; d < network.device_count(); ++d) {
    peak[d] = network.lost[d] ? 0 : peak[d] + source[d];
  }
  return peak;
}

}  // namespace remesh
