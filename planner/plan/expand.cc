// SPDX-License-Identifier: Apache-2.0
// Plan::ForEachTransfer() and ForEachFlow(): from moves of subs to slices of them in windows, and
// to boxes of arrays.
#include <memory>

#include "planner/plan/plan_rep.h"
#include "planner/plan/segment_parts.h"

namespace remesh {
namespace {

// A move as it is expanded, with the tape it runs on.
struct Work {
  PackedMove move;
  Segment segment;
  Interval stripe;  // of the segment
  const Tape* tape = nullptr;
};

// Range of the tape that `slice` of the work takes: at most one part of the segment.
Interval SliceOf(const Work& work, const Schedule& schedule, int32_t slice) {
  const SegmentParts parts(schedule, work.segment, work.move.segment, work.tape->unit_bits);
  const int64_t part = parts.PartIn(slice);
  return part < 0 ? Interval{0, 0} : parts.RangeOf(work.stripe, part);
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
