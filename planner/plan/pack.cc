// SPDX-License-Identifier: Apache-2.0
#include "planner/plan/pack.h"

#include <utility>

#include "planner/values/chunked_list.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

// `rep` has its segments.
void PackMoves(const std::vector<Move>& moves, PlanRep& rep, Budget& budget) {
  Reserve(rep.moves, moves.size());
  ChunkedList<StripeOfMove> stripes;
  for (const Move& move : moves) {
    if (budget.Spent()) return;
    const bool whole = move.lo == 0 && move.hi == rep.SegmentAt(move.segment).size();
    if (!whole) {
      stripes.push_back({static_cast<int32_t>(rep.moves.size()), move.lo, move.hi});
    }
    const int spaces = static_cast<int>(move.from_space) * 4 + static_cast<int>(move.to_space);
    rep.moves.push_back({.segment = move.segment,
                         .from_device = move.from_device,
                         .to_device = move.to_device,
                         .hop = static_cast<int16_t>(move.hop),
                         .spaces = static_cast<int8_t>(spaces),
                         .whole = whole});
  }
  rep.stripes = std::move(stripes).Take(budget);
  rep.stripes.shrink_to_fit();  // one chunk at most; a longer list has no spare room
}

void PackAtoms(Atoms atoms, PlanRep& rep) {
  rep.tape_begin.reserve(atoms.tapes.size() + 1);
  for (const Tape& tape : atoms.tapes) rep.tape_begin.push_back(tape.first_atom);
  rep.tape_begin.push_back(static_cast<int32_t>(atoms.numbers.size()));
  rep.geometry = std::move(atoms.geometry);
  rep.missing = std::move(atoms.missing);
  rep.atoms = std::move(atoms.numbers);
}

void PackSegments(std::vector<Segment> segments, PlanRep& rep, Budget& budget) {
  rep.segment_tape.reserve(segments.size());
  rep.segment_hi.reserve(segments.size());
  for (const Segment& segment : segments) {
    if (budget.Spent()) return;
    rep.segment_tape.push_back(segment.tape);
    rep.segment_hi.push_back(segment.hi);
  }
}

}  // namespace

std::shared_ptr<const PlanRep> Pack(std::vector<int64_t> target_order,
                                    const std::vector<int32_t>& host_of, Atoms atoms,
                                    std::vector<Segment> segments, Timeline timeline,
                                    const Figures& figures, Budget& budget) {
  auto rep = std::make_shared<PlanRep>();
  rep->target_order = std::move(target_order);
  rep->host_of = host_of;
  rep->figures = figures;
  PackAtoms(std::move(atoms), *rep);
  PackSegments(std::move(segments), *rep, budget);
  if (budget.SpentNow()) return rep;
  PackMoves(timeline.moves, *rep, budget);
  rep->round_begin = std::move(timeline.round_begin);
  rep->schedule = timeline.schedule;
  rep->peak_bytes = std::move(timeline.peak_bytes);
  return rep;
}

std::vector<Segment> UnpackedSegments(const PlanRep& rep) {
  std::vector<Segment> segments;
  segments.reserve(rep.segment_tape.size());
  for (size_t i = 0; i < rep.segment_tape.size(); ++i) {
    segments.push_back(rep.SegmentAt(static_cast<int32_t>(i)));
  }
  return segments;
}

Move Unpacked(const PackedMove& move, int32_t round, const Interval& stripe) {
  return {.segment = move.segment,
          .from_device = move.from_device,
          .to_device = move.to_device,
          .from_space = move.from_space(),
          .to_space = move.to_space(),
          .hop = move.hop,
          .round = round,
          .lo = stripe.lo,
          .hi = stripe.hi};
}

std::vector<Move> UnpackedMoves(const PlanRep& rep) {
  std::vector<Move> moves;
  moves.reserve(rep.moves.size());
  auto stripe = rep.stripes.begin();
  for (int32_t r = 0; r < rep.schedule.rounds; ++r) {
    for (int32_t i = rep.round_begin[r]; i < rep.round_begin[r + 1]; ++i) {
      Interval range{0, rep.SegmentAt(rep.moves[i].segment).size()};
      if (!rep.moves[i].whole) {
        range = {stripe->lo, stripe->hi};
        ++stripe;
      }
      moves.push_back(Unpacked(rep.moves[i], r, range));
    }
  }
  return moves;
}

}  // namespace remesh::planner
