// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "planner/schedule/moves.h"
#include "planner/schedule/segment_moves.h"

namespace remesh {
namespace {

// The whole segment goes from one device to another.
void AddWhole(int32_t segment, int32_t from, int32_t to, Space from_space, int stage,
              Space to_space, PlanDraft& draft) {
  draft.moves.push_back({.segment = segment,
                         .from_device = from,
                         .to_device = to,
                         .from_space = from_space,
                         .to_space = to_space,
                         .stage = stage,
                         .lo = 0,
                         .hi = draft.segments[segment].size()});
}

// Every needer pulls the whole of `sub` from one holder.
void PullSub(int32_t index, const Network& network, PlanDraft& draft) {
  const Sub sub = draft.atoms.subs[index];
  const int32_t segment = static_cast<int32_t>(draft.segments.size());
  draft.segments.push_back({index, 0, sub.bits});
  const Group& holders = draft.atoms.groups[sub.holders];
  const Group& needers = draft.atoms.groups[sub.needers];
  for (size_t i = 0; i < needers.size(); ++i) {
    absl::Span<const int32_t> from = InHost(holders, network.host_of[needers[i]], network);
    if (from.empty()) from = holders;
    const int32_t holder = Holds(holders, needers[i]) ? needers[i] : from[i % from.size()];
    AddWhole(segment, holder, needers[i], Space::kSource, 0, Space::kTarget, draft);
  }
}

// `gatherer` gets `sub` unless it holds it, and sends it to the others.
void GatherSub(int32_t index, int32_t gatherer, const Network& network, PlanDraft& draft) {
  const Sub sub = draft.atoms.subs[index];
  const int32_t segment = static_cast<int32_t>(draft.segments.size());
  draft.segments.push_back({index, 0, sub.bits});
  const Group& holders = draft.atoms.groups[sub.holders];
  const Group& needers = draft.atoms.groups[sub.needers];
  const bool wanted = std::any_of(needers.begin(), needers.end(),
                                  [&](int32_t needer) { return !Holds(holders, needer); });
  Space space = Space::kSource;
  if (!Holds(holders, gatherer) && wanted) {
    space = Holds(needers, gatherer) ? Space::kTarget : Space::kStaging;
    AddWhole(segment, holders[index % holders.size()], gatherer, Space::kSource, 0, space, draft);
  }
  for (int32_t needer : needers) {
    if (Holds(holders, needer)) {
      AddWhole(segment, needer, needer, Space::kSource, 0, Space::kTarget, draft);
    } else if (needer != gatherer) {
      AddWhole(segment, gatherer, needer, space, space == Space::kSource ? 0 : 1, Space::kTarget,
               draft);
    }
  }
}

}  // namespace

void MakeP2pMoves(const Network& network, PlanDraft& draft) {
  for (size_t s = 0; s < draft.atoms.subs.size() && !draft.budget->Spent(); ++s) {
    PullSub(static_cast<int32_t>(s), network, draft);
  }
}

void MakeGatherMoves(const Network& network, PlanDraft& draft) {
  int32_t gatherer = 0;
  while (gatherer < network.device_count() && network.nic_of[gatherer] < 0) ++gatherer;
  for (size_t s = 0; s < draft.atoms.subs.size() && !draft.budget->Spent(); ++s) {
    GatherSub(static_cast<int32_t>(s), gatherer, network, draft);
  }
}

}  // namespace remesh
