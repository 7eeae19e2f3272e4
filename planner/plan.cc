// SPDX-License-Identifier: Apache-2.0
#include "planner/plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/cost_model.h"
#include "planner/domain_routing.h"
#include "planner/lower_bound.h"
#include "planner/memory.h"
#include "planner/moves.h"
#include "planner/network.h"
#include "planner/plan_rep.h"
#include "planner/units.h"
#include "planner/windows.h"

namespace remesh {
namespace {

int64_t CeilBytes(int64_t bits) { return bits / 8 + (bits % 8 != 0 ? 1 : 0); }

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

absl::Status MemoryLimitExceeded(int64_t limit, int64_t needed) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("options.memory_limit_bytes: value \"", limit, "\" is below the ", needed,
                   " bytes needed"),
      {"MEMORY_LIMIT",
       {{"memory_limit_bytes", absl::StrCat(limit)}, {"needed_bytes", absl::StrCat(needed)}}});
}

// Slices so thin that source memory is given back about as fast as target memory is taken.
constexpr int64_t kDonationSlices = 64;
constexpr int64_t kDonationSlicesMax = 4096;

// Windows and the peak they lead to; with donation in more windows where the limit asks for that.
absl::Status ScheduleInMemory(const ReshardRequest& request, const Network& network,
                              PlanDraft& draft) {
  const PlanOptions& options = request.options;
  int64_t needed = 0;
  for (int64_t slices = options.donate ? kDonationSlices : 1;; slices *= 2) {
    RETURN_IF_ERROR(ScheduleWindows(network, options.window_bytes, slices, draft));
    draft.peak_bytes = PeakBytes(request, network, draft);
    draft.summary.peak_bytes_max =
        *std::max_element(draft.peak_bytes.begin(), draft.peak_bytes.end());
    const int64_t peak = draft.summary.peak_bytes_max;
    if (options.memory_limit_bytes == 0 || peak <= options.memory_limit_bytes) {
      return absl::OkStatus();
    }
    needed = needed == 0 ? peak : std::min(needed, peak);
    if (!options.donate || slices >= kDonationSlicesMax) break;
  }
  return MemoryLimitExceeded(options.memory_limit_bytes, needed);
}

// Where domains have uplinks, routes that enter each domain once are tried level by level; the
// least busy network wins.
void TryDomains(const DemandClasses& demand, const Network& network, const Rational& t0,
                PlanDraft& draft) {
  const Units units(network);
  double best = BottleneckSeconds(draft, network);
  const auto keep_if_better = [&](auto&& make_moves) {
    std::vector<Segment> segments = std::move(draft.segments);
    std::vector<Move> moves = std::move(draft.moves);
    draft.segments.clear();
    draft.moves.clear();
    make_moves();
    const double seconds = BottleneckSeconds(draft, network);
    if (seconds < best) {
      best = seconds;
      return;
    }
    draft.segments = std::move(segments);
    draft.moves = std::move(moves);
  };
  for (int level = 0; level < units.levels(); ++level) {
    keep_if_better([&] {
      MakeOptimalMoves(demand, RouteThroughDomains(demand, network, units, level), t0, network,
                       draft);
    });
  }
}

// Moves by the strategy asked for, and the bounds that hold whatever the strategy.
void MakeMoves(Strategy strategy, const DemandClasses& demand, const Network& network,
               PlanDraft& draft) {
  const Bound lower = LowerBound(demand, network);
  const Routing routing =
      RouteClasses(draft.atoms, demand, network, HostIngressBound(demand, network));
  const Bound reachable = RoutingBound(demand, network, routing);
  draft.lower_bound = lower.certificate;
  draft.routing_bound = reachable.certificate;
  draft.summary.lower_bound_seconds = lower.t.seconds();
  draft.summary.routing_bound_seconds = std::max(lower.t, reachable.t).seconds();
  draft.summary.certificate = lower.certificate.DebugString();
  if (lower.t < reachable.t) {
    absl::StrAppend(&draft.summary.certificate, "; without third hosts ",
                    reachable.certificate.DebugString());
  }
  // A cut may move by this much to fall between rows: a hundred thousandth of what the slowest NIC
  // can do in time T0.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Network::HostNode& host : network.hosts) least = std::min(least, host.nic_capacity);
  draft.atoms.tapes.slack_bits = routing.t0.CeilTimes(least) / 100000;
  if (strategy == Strategy::kP2p) return MakeP2pMoves(network, draft);
  if (strategy == Strategy::kGather) return MakeGatherMoves(network, draft);
  std::vector<Route> routes;
  for (size_t a = 0; a < demand.classes.size(); ++a) {
    routes.push_back(MakeTrees(demand.classes[a], routing.sent[a]));
  }
  MakeOptimalMoves(demand, routes, routing.t0, network, draft);
  if (!network.domains.empty()) TryDomains(demand, network, routing.t0, draft);
}

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
  summary.bytes_kept = CeilBytes(kept);
  summary.bytes_local = CeilBytes(local);
  summary.bytes_crossing = CeilBytes(crossing);
  summary.bytes_relayed = CeilBytes(relayed);
  summary.bytes_total = summary.bytes_kept + summary.bytes_local + summary.bytes_crossing;
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const CanonicalRequest& request) {
  const ReshardRequest& canonical = request.request;
  const Network network = MakeNetwork(canonical);
  PlanDraft draft;
  ASSIGN_OR_RETURN(draft.atoms, MakeAtoms(canonical, network));
  RETURN_IF_ERROR(CheckMissing(canonical, draft.atoms.missing));
  draft.host_of = network.host_of;
  const DemandClasses demand = MakeDemandClasses(draft.atoms, network);
  MakeMoves(canonical.options.strategy, demand, network, draft);
  RETURN_IF_ERROR(ScheduleInMemory(canonical, network, draft));
  SumBytes(draft);
  PlanSummary& summary = draft.summary;
  const Cost cost = Estimate(draft, network);
  summary.bottleneck_bytes = cost.bottleneck_bytes;
  summary.bottleneck_seconds = cost.bottleneck_seconds;
  summary.predicted_seconds = cost.predicted_seconds;
  summary.quality = summary.lower_bound_seconds > 0
                        ? summary.bottleneck_seconds / summary.lower_bound_seconds
                        : 1;
  summary.windows = draft.moves.empty() ? 0 : draft.schedule.windows();
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
      "plan: ", s.bytes_total, " bytes = ", s.bytes_kept, " kept + ", s.bytes_local, " local + ",
      s.bytes_crossing, " crossing, ", s.bytes_relayed, " relayed; bottleneck ", s.bottleneck_bytes,
      " bytes, ", s.bottleneck_seconds, " s; LB ", s.lower_bound_seconds, " s, T0 ",
      s.routing_bound_seconds, " s, Q ", s.quality, " (", s.certificate, "); predicted ",
      s.predicted_seconds, " s; peak ", s.peak_bytes_max, " bytes; ", s.windows, " windows, ",
      s.operations, " operations; ", rep_->sub_begin.size() - 1, " subs, ",
      rep_->segment_sub.size(), " segments, ", rep_->moves.size(), " moves");
}

}  // namespace remesh
