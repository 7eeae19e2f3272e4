// SPDX-License-Identifier: Apache-2.0
#include "planner/reprice.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/codec/plan_check.h"
#include "planner/figures.h"
#include "planner/network/links.h"
#include "planner/order/free_order.h"
#include "planner/plan/pack.h"
#include "planner/routing/make_routings.h"
#include "planner/schedule/cost_model.h"
#include "planner/schedule/earliest_hops.h"
#include "planner/schedule/make_timeline.h"
#include "planner/schedule/memory.h"
#include "planner/schedule/messages.h"
#include "planner/validate.h"

namespace remesh::planner {
namespace {

absl::Status Invalid(std::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   absl::StrCat("the plan does not answer the request: ", std::string(why)),
                   {.reason = "PLAN_INVALID", .metadata = {{"error", std::string(why)}}});
}

absl::Status Invalid(const absl::Status& status) {
  const absl::string_view why = status.message();
  return Invalid(std::string_view(why.data(), why.size()));
}

// Limits the work of a replay: expansion looks at every move in every cycle, and its parts become
// boxes.
absl::Status CheckWork(const PlanRep& rep) {
  const int64_t cycles = int64_t{rep.schedule.parts} + rep.schedule.hops;
  int64_t parts = 0;
  for (const PackedMove& move : rep.moves) {
    parts += std::max(rep.schedule.PartsOf(rep.SegmentAt(move.segment).size()), cycles / 8);
    if (parts > kReplayedPartsMax) break;
  }
  if (parts <= kReplayedPartsMax) return absl::OkStatus();
  const std::string most = absl::StrCat(kReplayedPartsMax);
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("the plan has more than ", most, " parts to check"),
                   {.reason = "PLAN_TOO_LARGE", .metadata = {{"parts_max", most}}});
}

// Whether the plan has the atoms and the missing boxes of `request`, which follow from the request
// alone.
bool HasAtoms(const PlanRep& rep, const Atoms& atoms) {
  if (rep.geometry.classes != atoms.geometry.classes || rep.atoms != atoms.numbers ||
      rep.missing != atoms.missing || rep.tape_begin.size() != atoms.tapes.size() + 1) {
    return false;
  }
  for (size_t s = 0; s < atoms.tapes.size(); ++s) {
    if (rep.tape_begin[s] != atoms.tapes[s].first_atom) return false;
  }
  return true;
}

// The plan's own schedule, with its costs computed again. Not once the budget is spent.
Timeline TimelineOf(const PlanRep& rep, const ReshardRequest& request, const Atoms& atoms,
                    const std::vector<Segment>& segments, const Network& network, Budget& budget) {
  Timeline timeline{
      .moves = UnpackedMoves(rep), .round_begin = rep.round_begin, .schedule = rep.schedule};
  const std::vector<Move>& moves = timeline.moves;
  const Schedule& schedule = timeline.schedule;
  const Links links(network);
  const PairList list = CollectPairs(moves, budget);
  timeline.messages = CountMessages(list, moves, segments, schedule, atoms, budget);
  if (!moves.empty()) {
    const ScheduleCost cost(moves, list, segments, schedule, schedule.parts, links, budget);
    const Prediction prediction = cost.Predict(schedule.parts);
    timeline.predicted_seconds = prediction.seconds;
    timeline.schedule_seconds = prediction.schedule_seconds;
  }
  timeline.peak_bytes =
      PeakBytes(request, network, atoms, segments, timeline, kPeakStepsMax, budget);
  return timeline;
}

absl::Status TooSlow(std::string_view what, double seconds, double enough) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      absl::StrCat("the plan is too slow: ", std::string(what), " ", seconds, " s, where ", enough,
                   " s are enough"),
      {.reason = "PLAN_TOO_SLOW",
       .metadata = {{"seconds", absl::StrCat(seconds)}, {"enough_seconds", absl::StrCat(enough)}}});
}

// Compares the plan's paths with their bound, and its windows with this planner's for its moves.
absl::Status CheckSpeed(const PlanRep& rep, const ReshardRequest& request, const Atoms& atoms,
                        const PlanSummary& summary, const Network& network, Budget& budget) {
  const double bound = summary.routing_bound_seconds;
  if (request.options.strategy == Strategy::kOptimal &&
      summary.bottleneck_seconds > kSlowerMax * bound) {
    return TooSlow("its busiest link takes", summary.bottleneck_seconds, bound);
  }
  Moves moves{.segments = UnpackedSegments(rep),
              .moves = UnpackedMoves(rep),
              .slack_bits = rep.schedule.slack_bits};
  for (Move& move : moves.moves) {
    move.hop = move.hop * rep.schedule.rounds + move.round;
    move.round = 0;
  }
  SetEarliestHops(moves.segments.size(), moves.moves, budget);
  RETURN_IF_ERROR(budget.Check());
  const absl::StatusOr<TimedMoves> own =
      MakeTimeline(request, atoms, std::move(moves), network, budget);
  RETURN_IF_ERROR(budget.Check());
  if (!own.ok()) return Invalid(own.status());
  const double enough = own->timeline.predicted_seconds;
  if (summary.predicted_seconds <= kSlowerMax * enough) return absl::OkStatus();
  return TooSlow("its windows take", summary.predicted_seconds, enough);
}

// Whether all devices of the moves may carry.
bool Carry(const std::vector<PackedMove>& moves, const Network& network) {
  return std::all_of(moves.begin(), moves.end(), [&](const PackedMove& move) {
    return network.nic_of[move.from_device] >= 0 && network.nic_of[move.to_device] >= 0;
  });
}

}  // namespace

absl::StatusOr<Plan> Repriced(const CanonicalRequest& request, const Plan& plan, Budget& budget) {
  const PlanRep& rep = plan.rep();
  if (absl::Status status = CheckRep(rep, request.request); !status.ok()) return Invalid(status);
  RETURN_IF_ERROR(CheckWork(rep));
  const ReshardRequest ordered = WithTargetOrder(request.request, rep.target_order);
  const Network network = MakeNetwork(ordered);
  ASSIGN_OR_RETURN(const Atoms atoms, MakeAtoms(ordered, network, budget));
  if (!HasAtoms(rep, atoms)) return Invalid("its arrays are cut otherwise");
  RETURN_IF_ERROR(CheckMissing(ordered, atoms.missing));
  for (const Move& move : UnpackedMoves(rep)) {
    if (budget.Spent()) return budget.Check();
    if (move.lo == move.hi) return Invalid("it has moves of nothing");
  }
  if (!Carry(rep.moves, network)) {
    return Invalid("it uses devices that the request does not name, or lost ones");
  }
  const DemandClasses demand = MakeDemandClasses(atoms, network, budget);
  RETURN_IF_ERROR(budget.Check());
  const Routings routings = BoundRoutings(atoms, demand, network, budget);
  RETURN_IF_ERROR(budget.Check());
  std::vector<Segment> segments = UnpackedSegments(rep);
  Timeline timeline = TimelineOf(rep, ordered, atoms, segments, network, budget);
  RETURN_IF_ERROR(budget.Check());
  RETURN_IF_ERROR(CheckPeaks(ordered, timeline.peak_bytes));
  const Figures figures = MakeFigures(atoms, routings, segments, timeline, network, budget);
  RETURN_IF_ERROR(budget.Check());
  const Plan repriced(Pack(rep.target_order, network.host_of, atoms, std::move(segments),
                           std::move(timeline), figures, budget));
  RETURN_IF_ERROR(budget.Check());
  const absl::Status valid = ValidatePlan(repriced, request, budget);
  RETURN_IF_ERROR(budget.Check());
  if (!valid.ok()) return Invalid(valid);
  RETURN_IF_ERROR(CheckSpeed(rep, ordered, atoms, figures.summary, network, budget));
  return repriced;
}

}  // namespace remesh::planner
