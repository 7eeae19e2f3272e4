// SPDX-License-Identifier: Apache-2.0
// Plan::ForEachTransfer(): from moves of subs to boxes of arrays.
#include <algorithm>
#include <memory>

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

// A move as it is expanded, with the tape it runs on.
struct Work {
  PackedMove move;
  Segment segment;
  Interval stripe;  // of the segment
  const Tape* tape = nullptr;
};

// Range of the tape that `slice` of the work takes. Slices of a segment and stripes of a slice
// adjoin without gaps.
Interval SliceOf(const Work& work, const Schedule& schedule, int32_t slice) {
  const int64_t size = work.segment.size();
  const int64_t unit = work.tape->unit_bits;
  const int64_t parts = schedule.PartsOf(size);
  // Segments of few parts take turns in the cycles.
  const int64_t phase = work.move.segment * 7919LL % schedule.slices;
  const auto slice_begin = [&](int32_t i) {
    const int64_t done = (parts * i + phase) / schedule.slices;
    return done == parts ? size : MulDiv(size / unit, done, parts) * unit;
  };
  const int64_t begin = slice_begin(slice);
  const int64_t length = slice_begin(slice + 1) - begin;
  return {work.segment.lo + begin + CutInSlice(length, work.stripe.lo, size, unit, slice),
          work.segment.lo + begin + CutInSlice(length, work.stripe.hi, size, unit, slice)};
}

// The moves of a plan that are wanted, round by round, and their tapes.
class Program {
 public:
  template <typename Keep>
  Program(const Plan::Rep& rep, const Keep& keep)
      : rep_(rep), tape_of_sub_(rep.sub_begin.size()), work_of_round_(rep.schedule.rounds) {
    auto stripe = rep.stripes.begin();
    for (int32_t r = 0; r < rep.schedule.rounds; ++r) {
      for (int32_t i = rep.round_begin[r]; i < rep.round_begin[r + 1]; ++i) {
        const PackedMove& move = rep.moves[i];
        const bool kept = keep(move);
        if (kept) Add(move, move.whole ? nullptr : &*stripe, work_of_round_[r]);
        if (!move.whole) ++stripe;
      }
    }
  }

  void Run(absl::FunctionRef<void(const Transfer&)> visit) const {
    for (int32_t window = 0; window < rep_.summary.windows; ++window) {
      const int32_t cycle = window / rep_.schedule.rounds;
      for (const Work& work : work_of_round_[window % rep_.schedule.rounds]) {
        const int32_t slice = cycle - work.move.stage;
        if (slice >= 0 && slice < rep_.schedule.slices) VisitSlice(work, slice, window, visit);
      }
    }
  }

 private:
  void Add(const PackedMove& move, const StripeOfMove* stripe, std::vector<Work>& work) {
    const Segment segment = rep_.SegmentAt(move.segment);
    auto& tape = tape_of_sub_[segment.sub];
    if (tape == nullptr) tape = std::make_unique<Tape>(rep_.TapeOfSub(segment.sub));
    Interval range{0, segment.size()};
    if (stripe != nullptr) range = {stripe->lo, stripe->hi};
    work.push_back({move, segment, range, tape.get()});
  }

  void VisitSlice(const Work& work, int32_t slice, int32_t window,
                  absl::FunctionRef<void(const Transfer&)> visit) const {
    const Interval range = SliceOf(work, rep_.schedule, slice);
    if (range.lo == range.hi) return;
    rep_.tapes.ForEachBox(*work.tape, range.lo, range.hi, [&](int32_t array, const Box& box) {
      visit({.window = window,
             .array = array,
             .box = box,
             .from_device = work.move.from_device,
             .to_device = work.move.to_device,
             .from_space = work.move.from_space(),
             .to_space = work.move.to_space()});
    });
  }

  const Plan::Rep& rep_;
  std::vector<std::unique_ptr<Tape>> tape_of_sub_;
  std::vector<std::vector<Work>> work_of_round_;
};

}  // namespace

void Plan::ForEachTransfer(absl::FunctionRef<void(const Transfer&)> visit) const {
  Program(*rep_, [](const PackedMove&) { return true; }).Run(visit);
}

void Plan::ForEachTransferOfHost(int32_t host,
                                 absl::FunctionRef<void(const Transfer&)> visit) const {
  const auto keep = [&](const PackedMove& move) {
    return rep_->host_of[move.from_device] == host || rep_->host_of[move.to_device] == host;
  };
  Program(*rep_, keep).Run(visit);
}

}  // namespace remesh
