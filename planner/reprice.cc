// SPDX-License-Identifier: Apache-2.0
#include "planner/reprice.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/codec/plan_check.h"
#include "planner/figures.h"
#include "planner/plan/plan_rep.h"
#include "planner/schedule/cost_model.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/windows.h"

namespace remesh {
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

// Expansion looks at every move in every cycle, and its parts become boxes.
absl::Status CheckWork(const Plan::Rep& rep) {
  const int64_t cycles = int64_t{rep.schedule.slices} + rep.schedule.stages;
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

// Cells, and what is missing, follow from the request alone.
bool HasAtoms(const Plan::Rep& rep, const Atoms& atoms) {
  if (rep.tapes.classes != atoms.tapes.classes || rep.cells != atoms.cells ||
      rep.missing != atoms.missing || rep.sub_begin.size() != atoms.subs.size() + 1) {
    return false;
  }
  for (size_t s = 0; s < atoms.subs.size(); ++s) {
    if (rep.sub_begin[s] != atoms.subs[s].first_cell) return false;
  }
  return true;
}

void UnpackMoves(const Plan::Rep& rep, PlanDraft& draft) {
  for (size_t i = 0; i < rep.segment_sub.size(); ++i) {
    draft.segments.push_back(rep.SegmentAt(static_cast<int32_t>(i)));
  }
  auto stripe = rep.stripes.begin();
  for (int32_t r = 0; r < rep.schedule.rounds; ++r) {
    for (int32_t i = rep.round_begin[r]; i < rep.round_begin[r + 1]; ++i) {
      const PackedMove& packed = rep.moves[i];
      Move move{.segment = packed.segment,
                .from_device = packed.from_device,
                .to_device = packed.to_device,
                .from_space = packed.from_space(),
                .to_space = packed.to_space(),
                .stage = packed.stage,
                .round = r,
                .lo = 0,
                .hi = draft.segments[packed.segment].size()};
      if (!packed.whole) {
        move.lo = stripe->lo;
        move.hi = stripe->hi;
        ++stripe;
      }
      draft.moves.push_back(move);
    }
  }
  draft.host_of = rep.host_of;
  draft.round_begin = rep.round_begin;
  draft.schedule = rep.schedule;
  draft.atoms.tapes.slack_bits = rep.tapes.slack_bits;
}

}  // namespace

absl::StatusOr<Plan> Repriced(const CanonicalRequest& request, const Plan& plan) {
  const ReshardRequest& canonical = request.request;
  const Plan::Rep& rep = plan.rep();
  if (absl::Status status = CheckRep(rep, canonical); !status.ok()) return Invalid(status);
  RETURN_IF_ERROR(CheckWork(rep));
  const Network network = MakeNetwork(canonical);
  PlanDraft draft;
  ASSIGN_OR_RETURN(draft.atoms, MakeAtoms(canonical, network));
  if (!HasAtoms(rep, draft.atoms)) return Invalid("its arrays are cut otherwise");
  RETURN_IF_ERROR(CheckMissing(canonical, draft.atoms.missing));
  const DemandClasses demand = MakeDemandClasses(draft.atoms, network);
  const Routings routings = SetBounds(demand, network, draft);
  UnpackMoves(rep, draft);
  for (const Move& move : draft.moves) {
    const bool works = network.nic_of[move.from_device] >= 0 && network.nic_of[move.to_device] >= 0;
    if (!works) return Invalid("it uses devices that the request does not name, or lost ones");
  }
  RETURN_IF_ERROR(SetPeaks(canonical, network, draft));
  draft.summary.operations = CountOperations(CollectPairs(draft.moves), draft);
  draft.summary.predicted_seconds =
      draft.moves.empty()
          ? 0
          : ScheduleCost(draft, network, draft.schedule.rounds).Seconds(draft.schedule.slices);
  SetFigures(network, routings.domains.bound, draft);
  const Plan repriced(Pack(std::move(draft)));
  const absl::Status valid = repriced.Validate(request);
  if (!valid.ok()) return Invalid(valid);
  return repriced;
}

}  // namespace remesh
