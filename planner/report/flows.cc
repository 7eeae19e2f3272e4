// SPDX-License-Identifier: Apache-2.0
#include "planner/report/flows.h"

#include <vector>

#include "planner/plan_rep.h"

namespace remesh {
namespace {

int64_t BitsOf(const Plan::Rep& rep, const Move& move, int32_t slice) {
  const Interval range = SliceOf(rep, move, slice);
  if (range.lo >= range.hi) return 0;
  const Sub& sub = rep.atoms.subs[rep.segments[move.segment].sub];
  return rep.atoms.tapes.RoundedBits(rep.atoms.RunsOf(sub), range.lo, range.hi);
}

}  // namespace

void ForEachWindow(const Plan& plan,
                   absl::FunctionRef<void(int32_t window, absl::Span<const Flow> flows)> visit) {
  const Plan::Rep& rep = plan.rep();
  std::vector<Flow> flows;
  for (int32_t window = 0; window < rep.windows(); ++window) {
    const int32_t cycle = window / rep.rounds;
    const int32_t round = window % rep.rounds;
    flows.clear();
    for (int32_t i = rep.round_begin[round]; i < rep.round_begin[round + 1]; ++i) {
      const Move& move = rep.moves[i];
      const int32_t slice = cycle - move.stage;
      if (move.from_device == move.to_device || slice < 0 || slice >= rep.slices) continue;
      const int64_t bits = BitsOf(rep, move, slice);
      if (bits > 0) flows.push_back({move.from_device, move.to_device, bits});
    }
    if (!flows.empty()) visit(window, flows);
  }
}

}  // namespace remesh
