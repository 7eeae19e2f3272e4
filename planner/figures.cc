// SPDX-License-Identifier: Apache-2.0
#include "planner/figures.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "planner/routing/lower_bound.h"
#include "planner/schedule/cost_model.h"
#include "planner/schedule/memory.h"

namespace remesh {
namespace {

int64_t CeilBytes(int64_t bits) { return bits / 8 + (bits % 8 != 0 ? 1 : 0); }

void SumBytes(PlanDraft& draft) {
  int64_t kept = 0, local = 0, crossing = 0, relayed = 0;
  for (const Move& move : draft.moves) {
    const int64_t bits = move.hi - move.lo;
    const bool same_memory = draft.atoms.subs[draft.segments[move.segment].sub].same_memory;
    if (move.to_space == Space::kStaging) {
      relayed += bits;
    } else if (move.from_device == move.to_device && same_memory) {
      kept += bits;
    } else if (draft.host_of[move.from_device] == draft.host_of[move.to_device]) {
      local += bits;
    } else {
      crossing += bits;
    }
  }
  PlanSummary& summary = draft.summary;
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

Routings SetBounds(const DemandClasses& demand, const Network& network, PlanDraft& draft) {
  Bound lower = LowerBound(demand, network, *draft.budget);
  Routings routings;
  routings.hosts =
      RouteClasses(draft.atoms, demand, network, HostIngressBound(demand, network), *draft.budget);
  if (!network.domains.empty()) {
    routings.domains = RouteThroughDomains(demand, network, Units(network), *draft.budget);
    if (draft.budget->SpentNow()) return routings;
    // What binds across levels binds any plan by what its members alone hold.
    const Certificate& proof = routings.domains.bound.certificate;
    Bound across = EgressOf(proof.hosts, proof.domains, demand, network);
    if (lower.t < across.t) lower = std::move(across);
  }
  const Bound reachable = RoutingBound(demand, network, routings.hosts);
  draft.lower_bound = lower.certificate;
  draft.routing_bound = reachable.certificate;
  draft.summary.lower_bound_seconds = lower.t.seconds();
  draft.summary.routing_bound_seconds = std::max(lower.t, reachable.t).seconds();
  return routings;
}

absl::Status MemoryLimitExceeded(int64_t limit, int64_t needed) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("options.memory_limit_bytes: value \"", limit, "\" is below the ", needed,
                   " bytes needed"),
      {"MEMORY_LIMIT",
       {{"memory_limit_bytes", absl::StrCat(limit)}, {"needed_bytes", absl::StrCat(needed)}}});
}

absl::Status SetPeaks(const ReshardRequest& request, const Network& network, PlanDraft& draft) {
  draft.peak_bytes = PeakBytes(request, network, draft);
  const int64_t peak = *std::max_element(draft.peak_bytes.begin(), draft.peak_bytes.end());
  draft.summary.max_peak_bytes = peak;
  const int64_t limit = request.options.memory_limit_bytes;
  return limit == 0 || peak <= limit ? absl::OkStatus() : MemoryLimitExceeded(limit, peak);
}

void SetFigures(const Network& network, const Bound& domains, PlanDraft& draft) {
  SumBytes(draft);
  PlanSummary& summary = draft.summary;
  const Cost cost = Estimate(draft, network);
  summary.bottleneck_bytes = cost.bottleneck_bytes;
  summary.bottleneck_seconds = cost.bottleneck_seconds;
  summary.schedule_price =
      summary.bottleneck_seconds > 0 ? summary.predicted_seconds / summary.bottleneck_seconds : 1;
  summary.quality = summary.lower_bound_seconds > 0
                        ? summary.bottleneck_seconds / summary.lower_bound_seconds
                        : 1;
  const double entering_once = domains.t.seconds();
  if (summary.routing_bound_seconds < entering_once &&
      entering_once <= summary.bottleneck_seconds * (1 + 1e-12)) {
    summary.routing_bound_seconds = entering_once;
    draft.routing_bound = domains.certificate;
  }
  summary.windows = draft.moves.empty() ? 0 : draft.schedule.windows();
}

}  // namespace remesh
