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

// Runs the floors one after another. `request` has its target order.
absl::StatusOr<Plan> PlanOf(const ReshardRequest& request, std::vector<int64_t> target_order,
                            Budget& budget) {
  const Strategy strategy = request.options.strategy;
  const Network network = MakeNetwork(request);
  ASSIGN_OR_RETURN(const Atoms atoms, MakeAtoms(request, network, budget));
  RETURN_IF_ERROR(CheckMissing(request, atoms.missing));
  DemandClasses demand = MakeDemandClasses(atoms, network, budget);
  RETURN_IF_ERROR(budget.Check());
  Routings routings = MakeRoutings(strategy, atoms, demand, network, budget);
  RETURN_IF_ERROR(budget.Check());
  Moves moves = MakeMoves(strategy, atoms, demand, routings, network, budget);
  RETURN_IF_ERROR(budget.Check());
  demand = {};
  KeepBounds(routings);
  ASSIGN_OR_RETURN(const TimedMoves timed,
                   MakeTimeline(request, atoms, std::move(moves), network, budget));
  RETURN_IF_ERROR(budget.Check());
  const Figures figures =
      MakeFigures(atoms, routings, timed.segments, timed.timeline, network, budget);
  RETURN_IF_ERROR(budget.Check());
  Plan plan(Pack(std::move(target_order), network.host_of, atoms, timed.segments, timed.timeline,
                 figures, budget));
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
