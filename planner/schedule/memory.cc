// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/memory.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "planner/plan/segment_parts.h"
#include "planner/stable_order.h"

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

// What changes on one device: a stripe of a segment comes, or a whole segment goes, part by part.
struct Change {
  int32_t device = 0;
  int32_t segment = 0;
  int32_t stage = 0;  // part of slice i: in cycle i + stage
  bool comes = true;
  bool whole = true;
  Interval stripe;  // of the segment, unless it is the whole
};

// The changes of all devices, device by device.
std::vector<Change> ChangesOf(const PlanDraft& draft) {
  std::vector<int32_t> depth(draft.segments.size(), 0);
  for (const Move& move : draft.moves) {
    depth[move.segment] = std::max<int32_t>(depth[move.segment], move.stage);
  }
  std::vector<Change> changes;
  for (const Move& m : draft.moves) {
    const Interval stripe = {m.lo, m.hi};
    const bool whole = m.lo == 0 && m.hi == draft.segments[m.segment].size();
    changes.push_back({m.to_device, m.segment, m.stage, true, whole, stripe});
    if (m.to_space != Space::kStaging) continue;
    changes.push_back({m.to_device, m.segment, depth[m.segment], false, whole, stripe});
  }
  for (size_t s = 0; s < draft.segments.size(); ++s) {
    const Sub& sub = draft.atoms.subs[draft.segments[s].sub];
    for (int32_t holder : draft.atoms.groups[sub.holders]) {
      changes.push_back({holder, static_cast<int32_t>(s), depth[s], false, true, {}});
    }
  }
  const auto order = StableOrder(InOrder(changes.size()), draft.host_of.size(),
                                 [&](int32_t i) { return changes[i].device; });
  std::vector<Change> sorted;
  sorted.reserve(changes.size());
  for (int32_t i : order) sorted.push_back(changes[i]);
  return sorted;
}

// The parts of every segment, with their bits.
class PartTable {
 public:
  explicit PartTable(const PlanDraft& draft) : draft_(draft) {
    const Atoms& atoms = draft.atoms;
    for (const Sub& sub : atoms.subs) {
      const size_t index = tapes_.size();
      const size_t end =
          index + 1 < atoms.subs.size() ? atoms.subs[index + 1].first_cell : atoms.cells.size();
      tapes_.push_back(atoms.tapes.TapeOf(
          absl::MakeConstSpan(atoms.cells).subspan(sub.first_cell, end - sub.first_cell)));
    }
    for (size_t s = 0; s < draft.segments.size(); ++s) {
      first_.push_back(static_cast<int64_t>(bits_.size()));
      const SegmentParts parts = PartsOf(static_cast<int32_t>(s));
      const Interval whole = {0, draft.segments[s].size()};
      for (int64_t p = 0; p < parts.count(); ++p) bits_.push_back(BitsOf(s, parts, whole, p));
    }
  }

  // Calls visit(cycle, bits) for every part of the change.
  template <typename Visit>
  void ForEachPart(const Change& change, const Visit& visit) const {
    const SegmentParts parts = PartsOf(change.segment);
    for (int64_t p = 0; p < parts.count(); ++p) {
      visit(parts.SliceOf(p) + change.stage, change.whole
                                                 ? bits_[first_[change.segment] + p]
                                                 : BitsOf(change.segment, parts, change.stripe, p));
    }
  }

 private:
  const Tape& TapeOf(size_t segment) const { return tapes_[draft_.segments[segment].sub]; }
  SegmentParts PartsOf(int32_t segment) const {
    return {draft_.schedule, draft_.segments[segment], segment, TapeOf(segment).unit_bits};
  }
  int64_t BitsOf(size_t segment, const SegmentParts& parts, Interval stripe, int64_t part) const {
    const Interval range = parts.RangeOf(stripe, part);
    return draft_.atoms.tapes.BitsOfRange(TapeOf(segment), range.lo, range.hi);
  }

  const PlanDraft& draft_;
  std::vector<Tape> tapes_;     // sub by sub
  std::vector<int64_t> first_;  // segment -> into bits_
  std::vector<int64_t> bits_;
};

std::vector<int64_t> PeakWithDonation(const std::vector<int64_t>& source, const Network& network,
                                      const PlanDraft& draft) {
  const PartTable table(draft);
  const std::vector<Change> changes = ChangesOf(draft);
  const size_t cycles = draft.schedule.slices + draft.schedule.stages - 1;
  std::vector<int64_t> comes(cycles), goes(cycles);
  std::vector<int64_t> peak(network.device_count(), 0);
  auto next = changes.begin();
  for (int32_t d = 0; d < network.device_count(); ++d) {
    std::fill(comes.begin(), comes.end(), 0);
    std::fill(goes.begin(), goes.end(), 0);
    for (; next != changes.end() && next->device == d; ++next) {
      std::vector<int64_t>& side = next->comes ? comes : goes;
      table.ForEachPart(*next, [&](int64_t cycle, int64_t bits) { side[cycle] += bits; });
    }
    int64_t level = source[d] * 8;
    int64_t most = level;
    for (size_t c = 0; c < cycles; ++c) {
      most = std::max(most, level += comes[c]);
      level -= goes[c];
    }
    peak[d] = network.lost[d] ? 0 : (most + 7) / 8;
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
