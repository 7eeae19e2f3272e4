// SPDX-License-Identifier: Apache-2.0
// Plan::ForEachTransfer() and ForEachFlow(): a whole plan expanded.
#include <memory>

#include "planner/plan/expansion.h"
#include "planner/plan/plan_rep.h"

namespace remesh {
namespace {

// The moves of a plan that are wanted, and their tapes.
class WholePlan {
 public:
  template <typename Keep>
  WholePlan(const Plan::Rep& rep, const Keep& keep)
      : rep_(rep),
        tape_of_sub_(rep.sub_begin.size()),
        expansion_(rep.tapes, rep.schedule, rep.summary.windows) {
    auto stripe = rep.stripes.begin();
    for (int32_t r = 0; r < rep.schedule.rounds; ++r) {
      for (int32_t i = rep.round_begin[r]; i < rep.round_begin[r + 1]; ++i) {
        const PackedMove& move = rep.moves[i];
        if (keep(move)) expansion_.Add(r, WorkOf(move, move.whole ? nullptr : &*stripe));
        if (!move.whole) ++stripe;
      }
    }
  }

  const Expansion& expansion() const { return expansion_; }

 private:
  Work WorkOf(const PackedMove& move, const StripeOfMove* stripe) {
    const Segment segment = rep_.SegmentAt(move.segment);
    auto& tape = tape_of_sub_[segment.sub];
    if (tape == nullptr) tape = std::make_unique<Tape>(rep_.TapeOfSub(segment.sub));
    Interval range{0, segment.size()};
    if (stripe != nullptr) range = {stripe->lo, stripe->hi};
    return {.from_device = move.from_device,
            .to_device = move.to_device,
            .from_space = move.from_space(),
            .to_space = move.to_space(),
            .stage = move.stage,
            .segment = segment,
            .segment_number = move.segment,
            .stripe = range,
            .tape = tape.get()};
  }

  const Plan::Rep& rep_;
  std::vector<std::unique_ptr<Tape>> tape_of_sub_;
  Expansion expansion_;
};

}  // namespace

void Plan::ForEachTransfer(absl::FunctionRef<void(const Transfer&)> visit) const {
  const WholePlan whole(*rep_, [](const PackedMove&) { return true; });
  whole.expansion().ForEachTransfer([&](const Transfer& transfer) {
    visit(transfer);
    return true;
  });
}

void Plan::ForEachFlow(absl::FunctionRef<void(const Flow&)> visit) const {
  const auto keep = [](const PackedMove& move) { return move.from_device != move.to_device; };
  const WholePlan whole(*rep_, keep);
  whole.expansion().ForEachSlice([&](int32_t window, const Work& work, Interval range) {
    const int64_t bits = rep_->tapes.BitsOfRange(*work.tape, range.lo, range.hi);
    if (bits == 0) return true;
    visit({.window = window,
           .from_device = work.from_device,
           .to_device = work.to_device,
           .bits = bits});
    return true;
  });
}

}  // namespace remesh
