// SPDX-License-Identifier: Apache-2.0
#include "planner/figures.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "planner/network/links.h"
#include "planner/routing/fabric_bound.h"
#include "planner/schedule/cost_model.h"

namespace remesh::planner {
namespace {

int64_t CeilBytes(int64_t bits) { return bits / 8 + (bits % 8 != 0 ? 1 : 0); }

void SumBytes(const Atoms& atoms, const std::vector<Segment>& segments,
              const std::vector<Move>& moves, const Network& network, PlanSummary& summary,
              Budget& budget) {
  int64_t kept = 0, local = 0, crossing = 0, relayed = 0;
  for (const Move& move : moves) {
    if (budget.Spent()) return;
    const int64_t bits = move.hi - move.lo;
    const auto same_memory = [&] { return atoms.tapes[segments[move.segment].tape].same_memory; };
    if (move.to_space == Space::kStaging) {
      relayed += bits;
    } else if (move.from_device == move.to_device && same_memory()) {
      kept += bits;
    } else if (network.host_of[move.from_device] == network.host_of[move.to_device]) {
      local += bits;
    } else {
      crossing += bits;
    }
  }
  summary.kept_bytes = CeilBytes(kept);
  summary.local_bytes = CeilBytes(local);
  summary.crossing_bytes = CeilBytes(crossing);
  summary.relayed_bytes = CeilBytes(relayed);
  summary.total_bytes = summary.kept_bytes + summary.local_bytes + summary.crossing_bytes;
}

}  // namespace

absl::Status CheckMissing(const ReshardRequest& request, const std::vector<MissingBox>& missing) {
  if (missing.empty() || !request.fallbacks.empty()) return absl::OkStatus();
  const MissingBox& first = missing.front();
  const std::string array = absl::StrCat(first.array);
  const std::string box = first.box.DebugString();
  const std::string devices = absl::StrJoin(first.lost_devices, ",");
  return MakeError(
      absl::StatusCode::kDataLoss,
      absl::StrCat(missing.size(), " boxes are held by lost devices only, the first is ", box,
                   " of array ", array, " on devices ", devices, ", and no fallback is declared"),
      {"DATA_LOSS",
       {{"array", array},
        {"box", box},
        {"lost_devices", devices},
        {"boxes", absl::StrCat(missing.size())}}});
}

Figures MakeFigures(const Atoms& atoms, const Routings& routings,
                    const std::vector<Segment>& segments, const Timeline& timeline,
                    const Network& network, Budget& budget) {
  const Bound& lower = routings.lower;
  const Bound& reachable = routings.reachable;
  const Bound fabric = FabricBound(atoms, network, budget);
  Figures figures{.summary = {},
                  .lower_bound = lower.certificate,
                  .routing_bound = reachable.certificate,
                  .fabric_bound = fabric.certificate};
  PlanSummary& summary = figures.summary;
  summary.lower_bound_seconds = lower.t.seconds();
  summary.routing_bound_seconds = std::max(lower.t, reachable.t).seconds();
  summary.max_peak_bytes =
      *std::max_element(timeline.peak_bytes.begin(), timeline.peak_bytes.end());
  summary.messages = timeline.messages;
  summary.predicted_seconds = timeline.predicted_seconds;
  summary.schedule_seconds = timeline.schedule_seconds;
  summary.windows = timeline.moves.empty() ? 0 : timeline.schedule.windows();
  SumBytes(atoms, segments, timeline.moves, network, summary, budget);
  const Cost cost = Estimate(timeline.moves, Links(network), budget);
  summary.bottleneck_bytes = cost.bottleneck_bytes;
  summary.bottleneck_seconds = cost.bottleneck_seconds;
  summary.fabric_seconds = cost.fabric_seconds;
  summary.fabric_bound_seconds = fabric.t.seconds();
  const double busiest = std::max(cost.bottleneck_seconds, cost.fabric_seconds);
  summary.schedule_price = busiest > 0 ? summary.schedule_seconds / busiest : 1;
  summary.quality = summary.lower_bound_seconds > 0
                        ? summary.bottleneck_seconds / summary.lower_bound_seconds
                        : 1;
  const double entering_once = routings.domains.bound.t.seconds();
  if (summary.routing_bound_seconds < entering_once &&
      entering_once <= summary.bottleneck_seconds * (1 + 1e-12)) {
    summary.routing_bound_seconds = entering_once;
    figures.routing_bound = routings.domains.bound.certificate;
  }
  return figures;
}

}  // namespace remesh::planner
