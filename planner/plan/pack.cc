// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "planner/plan/plan_rep.h"

namespace remesh {
namespace {

template <typename T>
int64_t BytesOf(const std::vector<T>& items) {
  return static_cast<int64_t>(items.capacity() * sizeof(T));
}

void PackMoves(const PlanDraft& draft, Plan::Rep& rep) {
  rep.moves.reserve(draft.moves.size());
  for (const Move& move : draft.moves) {
    const bool whole = move.lo == 0 && move.hi == draft.segments[move.segment].size();
    if (!whole) {
      rep.stripes.push_back({static_cast<int32_t>(rep.moves.size()), move.lo, move.hi});
    }
    const int spaces = static_cast<int>(move.from_space) * 4 + static_cast<int>(move.to_space);
    rep.moves.push_back({.segment = move.segment,
                         .from_device = move.from_device,
                         .to_device = move.to_device,
                         .stage = static_cast<int16_t>(move.stage),
                         .spaces = static_cast<int8_t>(spaces),
                         .whole = whole});
  }
}

}  // namespace

int64_t Plan::Rep::bytes() const {
  int64_t bytes = static_cast<int64_t>(sizeof(Rep)) + BytesOf(missing) + BytesOf(host_of) +
                  BytesOf(cells) + BytesOf(sub_begin) + BytesOf(segment_sub) + BytesOf(segment_hi) +
                  BytesOf(moves) + BytesOf(stripes) + BytesOf(round_begin) + BytesOf(peak_bytes) +
                  BytesOf(tapes.classes);
  for (const ArrayClass& one : tapes.classes) {
    bytes += BytesOf(one.arrays) + BytesOf(one.boxes);
    for (const auto& cuts : one.cuts) bytes += BytesOf(cuts);
  }
  return bytes;
}

std::shared_ptr<const Plan::Rep> Pack(PlanDraft draft) {
  auto rep = std::make_shared<Plan::Rep>();
  PackMoves(draft, *rep);
  rep->sub_begin.reserve(draft.atoms.subs.size() + 1);
  for (const Sub& sub : draft.atoms.subs) rep->sub_begin.push_back(sub.first_cell);
  rep->sub_begin.push_back(static_cast<int32_t>(draft.atoms.cells.size()));
  rep->segment_sub.reserve(draft.segments.size());
  rep->segment_hi.reserve(draft.segments.size());
  for (const Segment& segment : draft.segments) {
    rep->segment_sub.push_back(segment.sub);
    rep->segment_hi.push_back(segment.hi);
  }
  rep->tapes = std::move(draft.atoms.tapes);
  rep->missing = std::move(draft.atoms.missing);
  rep->cells = std::move(draft.atoms.cells);
  rep->cells.shrink_to_fit();
  rep->stripes.shrink_to_fit();
  rep->host_of = std::move(draft.host_of);
  rep->round_begin = std::move(draft.round_begin);
  rep->schedule = draft.schedule;
  rep->summary = std::move(draft.summary);
  rep->lower_bound = std::move(draft.lower_bound);
  rep->routing_bound = std::move(draft.routing_bound);
  rep->peak_bytes = std::move(draft.peak_bytes);
  return rep;
}

}  // namespace remesh
