// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/memory.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "base/int_math.h"
#include "planner/schedule/moved_segments.h"
#include "planner/schedule/relay_areas.h"
#include "planner/schedule/segment_parts.h"
#include "planner/schedule/transit.h"
#include "planner/values/packing.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

// The bits of shards, and the padding that their alignment adds.
struct ShardBits {
  std::vector<int64_t> bits;  // by device
  std::vector<int64_t> padding;
};

// The arrays that share a placement: how many have elements of each width.
struct Sharing {
  const Placement* placement = nullptr;
  absl::InlinedVector<std::pair<int, int64_t>, 4> arrays_of_width;
};

// Adds the shards of all these arrays to the sums of their devices.
void AddShards(const Sharing& sharing, ShardBits& sum) {
  const Placement& placement = *sharing.placement;
  const Layout& layout = *placement.layout;
  for (size_t t = 0; t < layout.tiles.size(); ++t) {
    int64_t bits = 0, padding = 0;
    for (const Box& box : layout.tiles[t].boxes) {
      const int64_t elements = box.element_count();
      for (const auto& [width, arrays] : sharing.arrays_of_width) {
        const int64_t of_box = elements * width;
        bits += of_box * arrays;
        padding += (StoredBytes(of_box) * 8 - of_box) * arrays;
      }
    }
    for (const int32_t position : layout.PositionsOf(t)) {
      sum.bits[(*placement.devices)[position]] += bits;
      sum.padding[(*placement.devices)[position]] += padding;
    }
  }
}

// The shards of all arrays before (source) or after; looks once at arrays that share a placement.
ShardBits ShardsOf(const ReshardRequest& request, Placement ArraySpec::*side,
                   const Network& network) {
  absl::flat_hash_map<std::pair<const Layout*, const DeviceList*>, size_t> index_of;
  std::vector<Sharing> counted;
  for (const ArraySpec& array : request.arrays) {
    const Placement& placement = array.*side;
    const auto [entry, inserted] =
        index_of.try_emplace({placement.layout.get(), placement.devices.get()}, counted.size());
    if (inserted) counted.push_back({.placement = &placement, .arrays_of_width = {}});
    auto& arrays = counted[entry->second].arrays_of_width;
    const int width = BitWidth(array.element_type);
    auto of_width = std::find_if(arrays.begin(), arrays.end(),
                                 [&](const auto& one) { return one.first == width; });
    if (of_width == arrays.end()) of_width = arrays.insert(of_width, {width, 0});
    ++of_width->second;
  }
  const std::vector<int64_t> none(network.device_count(), 0);
  ShardBits sum{none, none};
  for (const Sharing& sharing : counted) AddShards(sharing, sum);
  return sum;
}

// A change on one device: a stripe of a segment arrives, or a whole segment is freed, part by part.
struct Change {
  int32_t device = 0;
  int32_t segment = 0;
  int32_t hop = 0;  // the part of turn i arrives, or is freed, in cycle i + hop
  bool comes = true;
  bool whole = true;
  Interval stripe;  // of the segment, unless it is the whole
};

// The changes of all devices, device by device.
std::vector<Change> ChangesOf(const Atoms& atoms, const std::vector<Segment>& segments,
                              const std::vector<Move>& moves, int32_t device_count) {
  std::vector<int32_t> depth(segments.size(), 0);
  for (const Move& move : moves) {
    depth[move.segment] = std::max<int32_t>(depth[move.segment], move.hop);
  }
  std::vector<Change> changes;
  for (const Move& m : moves) {
    const Interval stripe = {m.lo, m.hi};
    const bool whole = m.lo == 0 && m.hi == segments[m.segment].size();
    if (m.to_space == Space::kStaging) continue;
    changes.push_back({m.to_device, m.segment, m.hop, true, whole, stripe});
  }
  for (size_t s = 0; s < segments.size(); ++s) {
    const Tape& tape = atoms.tapes[segments[s].tape];
    for (int32_t holder : atoms.groups[tape.holders]) {
      changes.push_back({holder, static_cast<int32_t>(s), depth[s], false, true, {}});
    }
  }
  const auto order = StableOrder(InOrder(changes.size()), device_count,
                                 [&](int32_t i) { return changes[i].device; });
  std::vector<Change> sorted;
  sorted.reserve(changes.size());
  for (int32_t i : order) sorted.push_back(changes[i]);
  return sorted;
}

// The bits that changes bring and free, in blocks of cycles.
class Blocks {
 public:
  Blocks(const Atoms& atoms, const std::vector<Segment>& segments, const Schedule& schedule,
         int64_t cycles)
      : atoms_(atoms), segments_(segments), schedule_(schedule), cycles_(cycles) {
    for (const Tape& tape : atoms.tapes) {
      const size_t index = tapes_.size();
      const size_t end =
          index + 1 < atoms.tapes.size() ? atoms.tapes[index + 1].first_atom : atoms.numbers.size();
      tapes_.push_back(atoms.geometry.RunsOf(
          absl::MakeConstSpan(atoms.numbers).subspan(tape.first_atom, end - tape.first_atom)));
    }
  }

  // Calls visit(block, bits) for every block in which parts of the change move; ends early once the
  // budget is spent.
  template <typename Visit>
  void ForEach(const Change& change, Budget& budget, const Visit& visit) const {
    const Segment& segment = segments_[change.segment];
    const TapeRuns& tape = tapes_[segment.tape];
    const SegmentParts parts(schedule_, segment, change.segment, tape.unit_bits);
    for (int64_t part = 0; part < parts.count() && !budget.Spent();) {
      const int64_t block = (parts.TurnOf(part) + change.hop) / cycles_;
      const int64_t end = parts.PartsBefore((block + 1) * cycles_ - change.hop);
      visit(block, BitsOf(change, segment, tape, parts, part, end));
      part = end;
    }
  }

 private:
  // The bits of the parts [part, end). For several parts at once, rounds arriving bits up and freed
  // bits down.
  int64_t BitsOf(const Change& change, const Segment& segment, const TapeRuns& tape,
                 const SegmentParts& parts, int64_t part, int64_t end) const {
    const AtomGeometry& geometry = atoms_.geometry;
    const int64_t slack = schedule_.slack_bits;
    const Interval whole = {0, segment.size()};
    const int64_t all = geometry.BitsOfRange(tape, parts.RangeOf(whole, part).lo,
                                             parts.RangeOf(whole, end - 1).hi, slack);
    if (change.whole) return all;
    if (part + 1 == end) {
      const Interval range = parts.RangeOf(change.stripe, part);
      return geometry.BitsOfRange(tape, range.lo, range.hi, slack);
    }
    // A stripe has an equal share of every part, to within a unit; its ends there may be rounded.
    const int64_t rounding = tape.unit_bits + 2 * std::max<int64_t>(slack, tape.unit_bits);
    const int64_t share = change.stripe.size() / parts.count();
    const int64_t count = end - part;
    if (change.comes) return std::min(all, (share + rounding) * count);
    return std::max<int64_t>(0, share - rounding) * count;
  }

  const Atoms& atoms_;
  const std::vector<Segment>& segments_;
  const Schedule& schedule_;
  const int64_t cycles_;         // per block
  std::vector<TapeRuns> tapes_;  // by tape
};

// Bits of target shards that no move delivers, per device: they come from a fallback.
std::vector<int64_t> MissingBits(const Atoms& atoms, const Network& network) {
  std::vector<int64_t> bits(network.device_count(), 0);
  for (size_t g = 0; g < atoms.missing_bits.size(); ++g) {
    for (const int32_t device : atoms.groups[g]) bits[device] += atoms.missing_bits[g];
  }
  return bits;
}

// The most bits of source and target shards at once, without their padding.
std::vector<int64_t> PeakWithDonation(const std::vector<int64_t>& source_bits,
                                      const Network& network, const Atoms& atoms,
                                      const std::vector<Segment>& segments,
                                      const Timeline& timeline, int64_t steps_max, Budget& budget) {
  const std::vector<Change> changes =
      ChangesOf(atoms, segments, timeline.moves, network.device_count());
  const Schedule& schedule = timeline.schedule;
  const int64_t cycles = schedule.parts + schedule.hops - 1;
  const int64_t blocks_max = std::max<int64_t>(1, steps_max / std::max<int64_t>(1, changes.size()));
  const int64_t cycles_of_block = (cycles + blocks_max - 1) / blocks_max;
  const Blocks blocks(atoms, segments, schedule, cycles_of_block);
  std::vector<int64_t> comes((cycles + cycles_of_block - 1) / cycles_of_block);
  std::vector<int64_t> goes(comes.size());
  std::vector<int64_t> peak(network.device_count(), 0);
  const std::vector<int64_t> missing = MissingBits(atoms, network);
  auto next = changes.begin();
  for (int32_t d = 0; d < network.device_count(); ++d) {
    std::fill(comes.begin(), comes.end(), 0);
    std::fill(goes.begin(), goes.end(), 0);
    for (; next != changes.end() && next->device == d; ++next) {
      if (budget.Spent()) return peak;
      std::vector<int64_t>& side = next->comes ? comes : goes;
      blocks.ForEach(*next, budget, [&](int64_t block, int64_t bits) { side[block] += bits; });
    }
    int64_t level = source_bits[d] + missing[d];
    peak[d] = level;
    for (size_t b = 0; b < comes.size(); ++b) {
      peak[d] = std::max(peak[d], level += comes[b]);
      level -= goes[b];
    }
  }
  return peak;
}

// The bytes of the two areas that hosts lay out beside shards, summed for each device.
std::vector<int64_t> AreaBytes(const Network& network, const Atoms& atoms,
                               const std::vector<Segment>& segments, const Timeline& timeline,
                               Budget& budget) {
  const SegmentCuts cuts = CutsOfMoves(timeline.moves, segments, budget);
  const MovedSegments moved = SegmentsOfPlan(timeline.schedule, segments, cuts, atoms.tapes);
  if (budget.SpentNow()) return std::vector<int64_t>(network.device_count(), 0);
  std::vector<int64_t> bytes =
      TransitBytes(moved, timeline.moves, network.host_of, kTransitStepsMax, budget);
  const RelayAreas relays = LayOutRelays(moved, timeline.moves, network.device_count(), budget);
  for (int32_t d = 0; d < network.device_count(); ++d) bytes[d] += relays.bytes[d];
  return bytes;
}

}  // namespace

std::vector<int64_t> PeakBytes(const ReshardRequest& canonical, const Network& network,
                               const Atoms& atoms, const std::vector<Segment>& segments,
                               const Timeline& timeline, int64_t steps_max, Budget& budget) {
  const ShardBits source = ShardsOf(canonical, &ArraySpec::source, network);
  const ShardBits target = ShardsOf(canonical, &ArraySpec::target, network);
  std::vector<int64_t> shard_bits(network.device_count());
  if (canonical.options.donate) {
    shard_bits =
        PeakWithDonation(source.bits, network, atoms, segments, timeline, steps_max, budget);
  } else {
    for (size_t d = 0; d < shard_bits.size(); ++d) shard_bits[d] = source.bits[d] + target.bits[d];
  }
  std::vector<int64_t> peak = AreaBytes(network, atoms, segments, timeline, budget);
  for (int32_t d = 0; d < network.device_count(); ++d) {
    peak[d] += BytesOfBits(shard_bits[d] + source.padding[d] + target.padding[d]);
    if (network.lost[d]) peak[d] = 0;
  }
  return peak;
}

}  // namespace remesh::planner
