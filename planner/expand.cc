// SPDX-License-Identifier: Apache-2.0
// Plan::ForEachTransfer(): from moves of subs to boxes of arrays.
#include <algorithm>

#include "planner/plan_rep.h"
#include "planner/rational.h"

namespace remesh {
namespace {

// Where the cut at `at` of a segment of `size` bits falls in a slice of `length` bits of it, in
// whole units. Each slice rounds another way (the fractional parts of slice * golden ratio are
// spread evenly), so that over all slices a stripe gets its part to within a few units.
int64_t CutInSlice(int64_t length, int64_t at, int64_t size, int64_t unit, int32_t slice) {
  if (at == 0) return 0;
  if (at == size) return length;
  const __int128 product = static_cast<__int128>(length / unit) * at;
  const uint64_t whole = static_cast<uint64_t>(product / size);
  const uint64_t fraction = static_cast<uint64_t>(((product % size) << 32) / size);
  const uint64_t dither =
      static_cast<uint32_t>(static_cast<uint32_t>(slice) * 2654435769u + (1u << 31));
  const int64_t units = static_cast<int64_t>(whole + ((fraction + dither) >> 32));
  return std::min(units * unit, length);
}

// Calls visit(move, slice, window) in window order for the moves with keep(move).
template <typename Keep, typename Visit>
void ForEachStep(const Plan::Rep& rep, const Keep& keep, const Visit& visit) {
  std::vector<std::vector<const Move*>> moves_of_round(rep.rounds);
  for (int32_t r = 0; r < rep.rounds; ++r) {
    for (int32_t i = rep.round_begin[r]; i < rep.round_begin[r + 1]; ++i) {
      if (keep(rep.moves[i])) moves_of_round[r].push_back(&rep.moves[i]);
    }
  }
  for (int32_t window = 0; window < rep.windows(); ++window) {
    const int32_t cycle = window / rep.rounds;
    for (const Move* move : moves_of_round[window % rep.rounds]) {
      const int32_t slice = cycle - move->stage;
      if (slice >= 0 && slice < rep.slices) visit(*move, slice, window);
    }
  }
}

template <typename Keep>
void Expand(const Plan::Rep& rep, const Keep& keep,
            absl::FunctionRef<void(const Transfer&)> visit) {
  ForEachStep(rep, keep, [&](const Move& move, int32_t slice, int32_t window) {
    const Sub& sub = rep.atoms.subs[rep.segments[move.segment].sub];
    const Interval range = SliceOf(rep, move, slice);
    rep.atoms.tapes.ForEachBox(rep.atoms.RunsOf(sub), range.lo, range.hi,
                               [&](int32_t array, const Box& box) {
                                 visit({.window = window,
                                        .array = array,
                                        .box = box,
                                        .from_device = move.from_device,
                                        .to_device = move.to_device,
                                        .from_space = move.from_space,
                                        .to_space = move.to_space});
                               });
  });
}

}  // namespace

int64_t PartsOf(const Plan::Rep& rep, const Segment& segment) {
  const int64_t wanted = (segment.size() + rep.part_bits_min - 1) / rep.part_bits_min;
  return std::min<int64_t>(rep.slices, wanted);
}

Interval SliceOf(const Plan::Rep& rep, const Move& move, int32_t slice) {
  const Segment& segment = rep.segments[move.segment];
  const int64_t size = segment.size();
  const int64_t unit = rep.atoms.subs[segment.sub].unit_bits;
  const int64_t parts = PartsOf(rep, segment);
  // Segments of few parts take turns in the cycles.
  const int64_t phase = move.segment * 7919LL % rep.slices;
  const auto slice_begin = [&](int32_t i) {
    const int64_t done = (parts * i + phase) / rep.slices;
    return done == parts ? size : MulDiv(size / unit, done, parts) * unit;
  };
  const int64_t begin = slice_begin(slice);
  const int64_t length = slice_begin(slice + 1) - begin;
  return {segment.lo + begin + CutInSlice(length, move.lo, size, unit, slice),
          segment.lo + begin + CutInSlice(length, move.hi, size, unit, slice)};
}

void Plan::ForEachTransfer(absl::FunctionRef<void(const Transfer&)> visit) const {
  Expand(
      *rep_, [](const Move&) { return true; }, visit);
}

void Plan::ForEachTransferOfHost(int32_t host,
                                 absl::FunctionRef<void(const Transfer&)> visit) const {
  const auto keep = [&](const Move& move) {
    return rep_->host_of[move.from_device] == host || rep_->host_of[move.to_device] == host;
  };
  Expand(*rep_, keep, visit);
}

}  // namespace remesh
