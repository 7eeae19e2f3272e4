// SPDX-License-Identifier: Apache-2.0
// Plan::ForEachTransfer() and ForEachFlow(): from moves of subs to slices of them in windows, and
// to boxes of arrays.
#include <algorithm>
#include <memory>

#include "planner/plan/plan_rep.h"
#include "planner/rational.h"

namespace remesh {
namespace {

// Which parts of a segment its units fall to: unit u of the segment's N stands for part u mod P, so
// that part p is ceil((N - p) / P) units long, and a stripe of n units takes n / P of them from
// every part to less than one, and n in all: nothing is rounded that adds up over the parts. What
// is over when the size is no multiple of the unit belongs to the last part's end.
struct Parts {
  int64_t units = 0;  // N
  int64_t count = 1;  // P

  // Units before part p.
  int64_t Begin(int64_t part) const {
    return part * (units / count) + std::min(part, units % count);
  }
  // Of the segment's first `at` units, those that fall to part p.
  int64_t Cut(int64_t part, int64_t at) const { return at / count + (part < at % count ? 1 : 0); }
};

// A move as it is expanded, with the tape it runs on.
struct Work {
  PackedMove move;
  Segment segment;
  Interval stripe;  // of the segment
  const Tape* tape = nullptr;
};

// Range of the tape that `slice` of the work takes: at most one part of the segment. Parts of a
// segment, and stripes within a part, adjoin without gaps.
Interval SliceOf(const Work& work, const Schedule& schedule, int32_t slice) {
  const int64_t size = work.segment.size();
  const int64_t unit = work.tape->unit_bits;
  const Parts parts{size / unit, schedule.PartsOf(size)};
  // Segments of few parts take turns in the cycles.
  const int64_t phase = work.move.segment * 7919LL % schedule.slices;
  const int64_t part = (parts.count * slice + phase) / schedule.slices;
  if ((parts.count * (slice + 1) + phase) / schedule.slices == part) return {0, 0};
  const int64_t begin = work.segment.lo + parts.Begin(part) * unit;
  const auto cut = [&](int64_t at) {
    const bool all = at == size && part + 1 == parts.count;
    return all ? work.segment.hi : begin + parts.Cut(part, at / unit) * unit;
  };
  return {cut(work.stripe.lo), cut(work.stripe.hi)};
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

  // Calls visit(window, work, range of its tape) for every slice that holds something.
  template <typename Visit>
  void Run(const Visit& visit) const {
    for (int32_t window = 0; window < rep_.summary.windows; ++window) {
      const int32_t cycle = window / rep_.schedule.rounds;
      for (const Work& work : work_of_round_[window % rep_.schedule.rounds]) {
        const int32_t slice = cycle - work.move.stage;
        if (slice < 0 || slice >= rep_.schedule.slices) continue;
        const Interval range = SliceOf(work, rep_.schedule, slice);
        if (range.lo != range.hi) visit(window, work, range);
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

  const Plan::Rep& rep_;
  std::vector<std::unique_ptr<Tape>> tape_of_sub_;
  std::vector<std::vector<Work>> work_of_round_;
};

void VisitTransfers(const Plan::Rep& rep, const Program& program,
                    absl::FunctionRef<void(const Transfer&)> visit) {
  program.Run([&](int32_t window, const Work& work, Interval range) {
    rep.tapes.ForEachBox(*work.tape, range.lo, range.hi, [&](int32_t array, const Box& box) {
      visit({.window = window,
             .array = array,
             .box = box,
             .from_device = work.move.from_device,
             .to_device = work.move.to_device,
             .from_space = work.move.from_space(),
             .to_space = work.move.to_space(),
             .sub = work.segment.sub});
    });
  });
}

}  // namespace

void Plan::ForEachTransfer(absl::FunctionRef<void(const Transfer&)> visit) const {
  VisitTransfers(*rep_, Program(*rep_, [](const PackedMove&) { return true; }), visit);
}

void Plan::ForEachTransferOfHost(int32_t host,
                                 absl::FunctionRef<void(const Transfer&)> visit) const {
  const auto keep = [&](const PackedMove& move) {
    return rep_->host_of[move.from_device] == host || rep_->host_of[move.to_device] == host;
  };
  VisitTransfers(*rep_, Program(*rep_, keep), visit);
}

void Plan::ForEachFlow(absl::FunctionRef<void(const Flow&)> visit) const {
  const auto keep = [](const PackedMove& move) { return move.from_device != move.to_device; };
  Program(*rep_, keep).Run([&](int32_t window, const Work& work, Interval range) {
    const int64_t bits = rep_->tapes.BitsOfRange(*work.tape, range.lo, range.hi);
    if (bits == 0) return;
    visit({.window = window,
           .from_device = work.move.from_device,
           .to_device = work.move.to_device,
           .bits = bits});
  });
}

}  // namespace remesh
