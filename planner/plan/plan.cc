// SPDX-License-Identifier: Apache-2.0
#include "planner/plan/plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/figures.h"
#include "planner/network/network.h"
#include "planner/plan/plan_rep.h"
#include "planner/routing/domain_trees.h"
#include "planner/routing/mixed_routes.h"
#include "planner/schedule/cost_model.h"
#include "planner/schedule/moves.h"
#include "planner/schedule/windows.h"

namespace remesh {
namespace {

// Slices so thin that source memory is given back about as fast as target memory is taken.
constexpr int64_t kDonationSlices = 64;
constexpr int64_t kDonationSlicesMax = 4096;

// Windows and the peak they lead to; with donation in more windows where the limit asks for that.
absl::Status ScheduleInMemory(const ReshardRequest& request, const Network& network,
                              PlanDraft& draft) {
  const PlanOptions& options = request.options;
  const bool again = options.donate && options.memory_limit_bytes > 0;
  const std::vector<Move> whole =
      again ? draft.moves : std::vector<Move>();  // scheduling cuts some
  int64_t needed = 0;
  for (int64_t slices = options.donate ? kDonationSlices : 1;; slices *= 2) {
    if (needed > 0) draft.moves = whole;
    const absl::Status status = ScheduleWindows(network, options.window_bytes, slices, draft);
    RETURN_IF_ERROR(draft.budget->Check());
    if (needed > 0 && !status.ok()) break;
    RETURN_IF_ERROR(status);
    if (SetPeaks(request, network, draft).ok()) return absl::OkStatus();
    RETURN_IF_ERROR(draft.budget->Check());
    const int64_t peak = draft.summary.max_peak_bytes;
    needed = needed == 0 ? peak : std::min(needed, peak);
    if (!options.donate || slices >= kDonationSlicesMax) break;
  }
  return MemoryLimitExceeded(options.memory_limit_bytes, needed);
}

// Who sends what to whom. Where uplinks bind, routes that enter each domain once, or a mix of both,
// if that makes the busiest link less busy.
RoutePlan MakeRoutes(const DemandClasses& demand, const Routings& routings, const Network& network,
                     Budget& budget) {
  RoutePlan plan{.routes = {}, .t = routings.hosts.t0};
  for (size_t a = 0; a < demand.classes.size() && !budget.Spent(); ++a) {
    plan.routes.push_back(MakeTrees(demand.classes[a], routings.hosts.sent[a], budget));
  }
  if (network.domains.empty() || budget.SpentNow()) return plan;
  plan = Timed(network, std::move(plan.routes));
  if (!(routings.hosts.t0 < ThousandthLess(plan.t))) return plan;
  std::vector<Route> through_domains = MakeDomainTrees(demand, routings.domains, budget);
  if (budget.SpentNow()) return plan;
  return LeastBusyMix(network, std::move(plan), Timed(network, std::move(through_domains)));
}

// Moves by the strategy asked for, and the bounds that hold whatever the strategy.
void MakeMoves(Strategy strategy, const DemandClasses& demand, const Routings& routings,
               const Network& network, PlanDraft& draft) {
  // A cut may move by this much to fall between rows: a hundred thousandth of what the slowest NIC
  // or uplink can do in time T0.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Network::HostNode& host : network.hosts) least = std::min(least, host.nic_capacity);
  for (const Network::DomainNode& domain : network.domains) {
    least = std::min({least, domain.egress, domain.ingress});
  }
  draft.atoms.tapes.slack_bits = routings.hosts.t0.CeilTimes(least) / 100000;
  if (strategy == Strategy::kP2p) return MakeP2pMoves(network, draft);
  if (strategy == Strategy::kGather) return MakeGatherMoves(network, draft);
  const RoutePlan plan = MakeRoutes(demand, routings, network, *draft.budget);
  if (draft.budget->SpentNow()) return;
  MakeOptimalMoves(demand, plan.routes, plan.t, network, draft);
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const CanonicalRequest& request, Budget& budget) {
  const ReshardRequest& canonical = request.request;
  const Network network = MakeNetwork(canonical);
  PlanDraft draft;
  draft.budget = &budget;
  ASSIGN_OR_RETURN(draft.atoms, MakeAtoms(canonical, network, budget));
  RETURN_IF_ERROR(CheckMissing(canonical, draft.atoms.missing));
  draft.host_of = network.host_of;
  const DemandClasses demand = MakeDemandClasses(draft.atoms, network, budget);
  RETURN_IF_ERROR(budget.Check());
  const Routings routings = SetBounds(demand, network, draft);
  RETURN_IF_ERROR(budget.Check());
  MakeMoves(canonical.options.strategy, demand, routings, network, draft);
  RETURN_IF_ERROR(budget.Check());
  RETURN_IF_ERROR(ScheduleInMemory(canonical, network, draft));
  RETURN_IF_ERROR(budget.Check());
  SetFigures(network, routings.domains.bound, draft);
  return Plan(Pack(std::move(draft)));
}

const PlanSummary& Plan::summary() const { return rep_->summary; }
const std::vector<MissingBox>& Plan::missing() const { return rep_->missing; }
const std::vector<int64_t>& Plan::peak_bytes() const { return rep_->peak_bytes; }

const Certificate& Plan::lower_bound_certificate() const { return rep_->lower_bound; }
const Certificate& Plan::routing_bound_certificate() const { return rep_->routing_bound; }

int64_t Plan::memory_bytes() const { return rep_->bytes(); }

bool operator==(const Plan& a, const Plan& b) { return *a.rep_ == *b.rep_; }

std::string Plan::DebugString() const {
  const PlanSummary& s = rep_->summary;
  return absl::StrCat(
      "plan: ", s.total_bytes, " bytes = ", s.kept_bytes, " kept + ", s.local_bytes, " local + ",
      s.crossing_bytes, " crossing, ", s.relayed_bytes, " relayed; bottleneck ", s.bottleneck_bytes,
      " bytes, ", s.bottleneck_seconds, " s; LB ", s.lower_bound_seconds, " s, T0 ",
      s.routing_bound_seconds, " s, Q ", s.quality, " (", rep_->lower_bound.DebugString(),
      s.lower_bound_seconds < s.routing_bound_seconds
          ? "; without third hosts " + rep_->routing_bound.DebugString()
          : "",
      "); predicted ", s.predicted_seconds, " s; peak ", s.max_peak_bytes, " bytes; ", s.windows,
      " windows, ", s.operations, " operations; ", rep_->sub_begin.size() - 1, " subs, ",
      rep_->segment_sub.size(), " segments, ", rep_->moves.size(), " moves");
}

}  // namespace remesh
