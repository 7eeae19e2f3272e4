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
#include "planner/lower_bound.h"
#include "planner/memory.h"
#include "planner/moves.h"
#include "planner/network.h"
#include "planner/plan_rep.h"
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
                              Plan::Rep& rep) {
  const PlanOptions& options = request.options;
  int64_t needed = 0;
  for (int64_t slices = options.donate ? kDonationSlices : 1;; slices *= 2) {
    RETURN_IF_ERROR(ScheduleWindows(network, options.window_bytes, slices, rep));
    rep.peak_bytes = PeakBytes(request, network, rep);
    rep.summary.peak_bytes_max = *std::max_element(rep.peak_bytes.begin(), rep.peak_bytes.end());
    const int64_t peak = rep.summary.peak_bytes_max;
    if (options.memory_limit_bytes == 0 || peak <= options.memory_limit_bytes) {
      return absl::OkStatus();
    }
    needed = needed == 0 ? peak : std::min(needed, peak);
    if (!options.donate || slices >= kDonationSlicesMax) break;
  }
  return MemoryLimitExceeded(options.memory_limit_bytes, needed);
}

// Moves by the strategy asked for, and the bounds that hold whatever the strategy.
void MakeMoves(Strategy strategy, const DemandClasses& demand, const Network& network,
               Plan::Rep& rep) {
  const Bound lower = LowerBound(demand, network);
  const Routing routing =
      RouteClasses(rep.atoms, demand, network, HostIngressBound(demand, network));
  const Bound reachable = RoutingBound(demand, network, routing);
  rep.lower_bound = lower.certificate;
  rep.routing_bound = reachable.certificate;
  rep.summary.lower_bound_seconds = lower.t.seconds();
  rep.summary.routing_bound_seconds = std::max(lower.t, reachable.t).seconds();
  rep.summary.certificate = lower.certificate.DebugString();
  if (lower.t < reachable.t) {
    absl::StrAppend(&rep.summary.certificate, "; without third hosts ",
                    reachable.certificate.DebugString());
  }
  // A cut may move by this much to fall between rows: a hundred thousandth of what the slowest NIC
  // can do in time T0.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Network::HostNode& host : network.hosts) least = std::min(least, host.nic_capacity);
  rep.atoms.tapes.slack_bits = routing.t0.CeilTimes(least) / 100000;
  if (strategy == Strategy::kP2p) return MakeP2pMoves(network, rep);
  if (strategy == Strategy::kGather) return MakeGatherMoves(network, rep);
  std::vector<Route> routes;
  for (size_t a = 0; a < demand.classes.size(); ++a) {
    routes.push_back(MakeTrees(demand.classes[a], routing.sent[a]));
  }
  MakeOptimalMoves(demand, routes, routing.t0, network, rep);
}

void SumBytes(Plan::Rep& rep) {
  int64_t kept = 0, local = 0, crossing = 0, relayed = 0;
  for (const Move& move : rep.moves) {
    const int64_t bits = move.hi - move.lo;
    const bool same_memory = rep.atoms.subs[rep.segments[move.segment].sub].same_memory;
    if (move.to_space == Space::kStaging) {
      relayed += bits;
    } else if (move.from_device == move.to_device && same_memory) {
      kept += bits;
    } else if (rep.host_of[move.from_device] == rep.host_of[move.to_device]) {
      local += bits;
    } else {
      crossing += bits;
    }
  }
  PlanSummary& summary = rep.summary;
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
  auto rep = std::make_shared<Plan::Rep>();
  ASSIGN_OR_RETURN(rep->atoms, MakeAtoms(canonical, network));
  RETURN_IF_ERROR(CheckMissing(canonical, rep->atoms.missing));
  rep->host_of = network.host_of;
  const DemandClasses demand = MakeDemandClasses(rep->atoms, network);
  MakeMoves(canonical.options.strategy, demand, network, *rep);
  RETURN_IF_ERROR(ScheduleInMemory(canonical, network, *rep));
  SumBytes(*rep);
  PlanSummary& summary = rep->summary;
  const Cost cost = Estimate(*rep, network);
  summary.bottleneck_bytes = cost.bottleneck_bytes;
  summary.bottleneck_seconds = cost.bottleneck_seconds;
  summary.predicted_seconds = cost.predicted_seconds;
  summary.quality = summary.lower_bound_seconds > 0
                        ? summary.bottleneck_seconds / summary.lower_bound_seconds
                        : 1;
  summary.windows = rep->windows();
  return Plan(std::move(rep));
}

const PlanSummary& Plan::summary() const { return rep_->summary; }
const std::vector<MissingBox>& Plan::missing() const { return rep_->atoms.missing; }
const std::vector<int64_t>& Plan::peak_bytes() const { return rep_->peak_bytes; }

const Certificate& Plan::lower_bound_certificate() const { return rep_->lower_bound; }
const Certificate& Plan::routing_bound_certificate() const { return rep_->routing_bound; }

int64_t Plan::memory_bytes() const {
  const Atoms& atoms = rep_->atoms;
  size_t bytes = sizeof(Rep) + rep_->moves.size() * sizeof(Move) +
                 rep_->segments.size() * sizeof(Segment) + rep_->peak_bytes.size() * 8 +
                 rep_->host_of.size() * 4 + atoms.subs.size() * sizeof(Sub) +
                 atoms.runs.size() * sizeof(TapeRun) + atoms.tapes.cells.size() * 4 +
                 atoms.missing.size() * sizeof(MissingBox);
  for (const Group& group : atoms.groups) bytes += sizeof(Group) + group.size() * 4;
  for (const ArrayClass& one : atoms.tapes.classes) {
    bytes += sizeof(ArrayClass) + one.arrays.size() * 4 + one.boxes.size() * sizeof(Box);
    for (const auto& intervals : one.intervals) bytes += intervals.size() * sizeof(Interval);
  }
  return static_cast<int64_t>(bytes);
}

bool operator==(const Plan& a, const Plan& b) {
  const Plan::Rep& x = *a.rep_;
  const Plan::Rep& y = *b.rep_;
  return x.summary == y.summary && x.moves == y.moves && x.segments == y.segments &&
         x.slices == y.slices && x.rounds == y.rounds && x.host_of == y.host_of &&
         x.peak_bytes == y.peak_bytes && x.atoms == y.atoms;
}

std::string Plan::DebugString() const {
  const PlanSummary& s = rep_->summary;
  return absl::StrCat(
      "plan: ", s.bytes_total, " bytes = ", s.bytes_kept, " kept + ", s.bytes_local, " local + ",
      s.bytes_crossing, " crossing, ", s.bytes_relayed, " relayed; bottleneck ", s.bottleneck_bytes,
      " bytes, ", s.bottleneck_seconds, " s; LB ", s.lower_bound_seconds, " s, T0 ",
      s.routing_bound_seconds, " s, Q ", s.quality, " (", s.certificate, "); predicted ",
      s.predicted_seconds, " s; peak ", s.peak_bytes_max, " bytes; ", s.windows, " windows, ",
      s.operations, " operations; ", rep_->atoms.subs.size(), " subs, ", rep_->segments.size(),
      " segments, ", rep_->moves.size(), " moves");
}

}  // namespace remesh
