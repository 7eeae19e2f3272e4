// SPDX-License-Identifier: Apache-2.0
#include "planner/make_plan.h"

#include <utility>

#include "base/status_macros.h"
#include "planner/atoms/demand_classes.h"
#include "planner/figures.h"
#include "planner/moves/make_moves.h"
#include "planner/network/network.h"
#include "planner/order/free_order.h"
#include "planner/plan/pack.h"
#include "planner/routing/make_routings.h"
#include "planner/schedule/make_timeline.h"

namespace remesh::planner {
namespace {

// Keeps the bounds of `routings`, which figures need, and frees the rest. Freeing amounts and
// routes of millions of classes at the end, together with all that is made later, would take longer
// than a cancelled request may last.
void KeepBounds(Routings& routings) {
  routings.hosts = {.t0 = routings.hosts.t0};
  routings.domains = {.bound = std::move(routings.domains.bound)};
  routings.routes = {.t = routings.routes.t};
}

// With more moves than this they are dealt out to NICs only once: another time would take long, and
// the routes would have to be kept until then.
constexpr size_t kMovesToDealAgain = size_t{1} << 19;
// The part of the time that a small fraction of the messages is worth.
constexpr double kMoreMessagesWorth = 0.1;

// Whether `other` is faster by more than its messages are worth: twice as many a thirtieth.
bool IsBetter(const Timeline& other, const Timeline& first) {
  if (other.is_good != first.is_good) return other.is_good;
  const auto more = static_cast<double>(other.messages - first.messages);
  const auto all = static_cast<double>(other.messages + first.messages);
  return other.predicted_seconds < first.predicted_seconds * (1 - kMoreMessagesWorth * more / all);
}

// Runs the floors one after another. Where messages cost much, tries another way of dealing moves
// out to NICs too. `request` has its target order.
absl::StatusOr<Plan> PlanOf(const ReshardRequest& request, std::vector<int64_t> target_order,
                            Budget& budget) {
  const Strategy strategy = request.options.strategy;
  const Network network = MakeNetwork(request);
  ASSIGN_OR_RETURN(Atoms atoms, MakeAtoms(request, network, budget));
  RETURN_IF_ERROR(CheckMissing(request, atoms.missing));
  DemandClasses demand = MakeDemandClasses(atoms, network, budget);
  RETURN_IF_ERROR(budget.Check());
  Routings routings = MakeRoutings(strategy, atoms, demand, network, budget);
  RETURN_IF_ERROR(budget.Check());
  // Before more memory is taken: the routes say how many bits a class has.
  demand.classes = std::vector<DemandClass>();
  bool may_deal_again = false;
  const auto free_routes = [&] {
    demand = {};
    KeepBounds(routings);
  };
  const auto timed_moves = [&](Dealing dealing) -> absl::StatusOr<TimedMoves> {
    Moves moves = MakeMoves(strategy, atoms, demand, routings, network, budget, dealing);
    RETURN_IF_ERROR(budget.Check());
    may_deal_again = strategy == Strategy::kOptimal && moves.moves.size() <= kMovesToDealAgain;
    if (!may_deal_again) free_routes();
    return MakeTimeline(request, atoms, std::move(moves), network, budget);
  };
  ASSIGN_OR_RETURN(TimedMoves timed, timed_moves(Dealing::kInSequence));
  if (timed.timeline.is_dear && may_deal_again) {
    absl::StatusOr<TimedMoves> other = timed_moves(Dealing::kStaggered);
    RETURN_IF_ERROR(budget.Check());
    if (other.ok() && IsBetter(other->timeline, timed.timeline)) timed = *std::move(other);
  }
  free_routes();
  RETURN_IF_ERROR(budget.Check());
  const Figures figures =
      MakeFigures(atoms, routings, timed.segments, timed.timeline, network, budget);
  RETURN_IF_ERROR(budget.Check());
  Plan plan(Pack(std::move(target_order), network.host_of, std::move(atoms),
                 std::move(timed.segments), std::move(timed.timeline), figures, budget));
  RETURN_IF_ERROR(budget.Check());
  return plan;
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const CanonicalRequest& request, Budget& budget) {
  if (!request.request.options.free_target_order) return PlanOf(request.request, {}, budget);
  std::vector<int64_t> order = ChooseTargetOrder(request.request, budget);
  RETURN_IF_ERROR(budget.Check());
  const ReshardRequest ordered = WithTargetOrder(request.request, order);
  return PlanOf(ordered, std::move(order), budget);
}

}  // namespace remesh::planner
