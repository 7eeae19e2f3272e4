// SPDX-License-Identifier: Apache-2.0
#include "planner/plan/plan.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "planner/plan/expansion.h"
#include "planner/plan/plan_rep.h"

namespace remesh::planner {
namespace {

// The moves of a plan that `keep` selects, and their tapes.
class WholePlan {
 public:
  template <typename Keep>
  WholePlan(const PlanRep& rep, const Keep& keep)
      : rep_(rep),
        runs_of_tape_(rep.tape_begin.size()),
        expansion_(rep.geometry, rep.schedule, rep.figures.summary.windows) {
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
    auto& tape = runs_of_tape_[segment.tape];
    if (tape == nullptr) tape = std::make_unique<TapeRuns>(rep_.RunsOfTape(segment.tape));
    Interval range{0, segment.size()};
    if (stripe != nullptr) range = {stripe->lo, stripe->hi};
    return {.from_device = move.from_device,
            .to_device = move.to_device,
            .from_space = move.from_space(),
            .to_space = move.to_space(),
            .hop = move.hop,
            .segment = segment,
            .segment_number = move.segment,
            .stripe = range,
            .tape = tape.get()};
  }

  const PlanRep& rep_;
  std::vector<std::unique_ptr<TapeRuns>> runs_of_tape_;
  Expansion expansion_;
};

}  // namespace

const PlanSummary& Plan::summary() const { return rep_->figures.summary; }
const std::vector<MissingBox>& Plan::missing() const { return rep_->missing; }
const std::vector<int64_t>& Plan::target_order() const { return rep_->target_order; }
const std::vector<int64_t>& Plan::peak_bytes() const { return rep_->peak_bytes; }

const Certificate& Plan::lower_bound_certificate() const { return rep_->figures.lower_bound; }
const Certificate& Plan::routing_bound_certificate() const { return rep_->figures.routing_bound; }
const Certificate& Plan::fabric_bound_certificate() const { return rep_->figures.fabric_bound; }

int64_t Plan::memory_bytes() const { return rep_->bytes(); }

bool operator==(const Plan& a, const Plan& b) { return *a.rep_ == *b.rep_; }

void Plan::ForEachTransfer(absl::FunctionRef<void(const Transfer&)> visit) const {
  ForEachTransferFrom(0, [&](const Transfer& transfer) {
    visit(transfer);
    return true;
  });
}

void Plan::ForEachTransferFrom(int32_t first_window,
                               absl::FunctionRef<bool(const Transfer&)> visit) const {
  const WholePlan whole(*rep_, [](const PackedMove&) { return true; });
  whole.expansion().ForEachTransfer(visit, first_window);
}

void Plan::ForEachFlow(absl::FunctionRef<void(const Flow&)> visit, Budget& budget) const {
  const auto keep = [](const PackedMove& move) { return move.from_device != move.to_device; };
  const WholePlan whole(*rep_, keep);
  whole.expansion().ForEachPart([&](int32_t window, const Work& work, Interval range) {
    const int64_t bits =
        rep_->geometry.BitsOfRange(*work.tape, range.lo, range.hi, rep_->schedule.slack_bits);
    if (budget.Spent()) return false;
    if (bits == 0) return true;
    visit({.window = window,
           .from_device = work.from_device,
           .to_device = work.to_device,
           .bits = bits});
    return true;
  });
}

std::string Plan::DebugString() const {
  const PlanSummary& s = rep_->figures.summary;
  return absl::StrCat(
      "plan: ", s.total_bytes, " bytes = ", s.kept_bytes, " kept + ", s.local_bytes, " local + ",
      s.crossing_bytes, " crossing, ", s.relayed_bytes, " relayed; bottleneck ", s.bottleneck_bytes,
      " bytes, ", s.bottleneck_seconds, " s; LB ", s.lower_bound_seconds, " s, T0 ",
      s.routing_bound_seconds, " s, Q ", s.quality, " (", rep_->figures.lower_bound.DebugString(),
      s.lower_bound_seconds < s.routing_bound_seconds
          ? "; without third hosts " + rep_->figures.routing_bound.DebugString()
          : "",
      "); fabric ", s.fabric_seconds, " s of at least ", s.fabric_bound_seconds, " s (",
      rep_->figures.fabric_bound.DebugString(), "); predicted ", s.predicted_seconds, " s, ",
      s.schedule_seconds, " s without messages, price ", s.schedule_price, "; peak ",
      s.max_peak_bytes, " bytes; ", s.windows, " windows, ", s.messages, " messages; ",
      rep_->tape_begin.size() - 1, " tapes, ", rep_->segment_tape.size(), " segments, ",
      rep_->moves.size(), " moves");
}

}  // namespace remesh::planner
