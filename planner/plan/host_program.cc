// SPDX-License-Identifier: Apache-2.0
#include "planner/plan/host_program.h"

#include <algorithm>

#include "planner/plan/expansion.h"
#include "planner/plan/plan_rep.h"
#include "planner/schedule/moved_segments.h"
#include "planner/schedule/relay_areas.h"

namespace remesh::planner {
namespace {

template <typename T>
void SortUnique(std::vector<T>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// The index of `number` in a rising list that contains it.
int32_t IndexIn(const std::vector<int32_t>& numbers, int32_t number) {
  return static_cast<int32_t>(std::lower_bound(numbers.begin(), numbers.end(), number) -
                              numbers.begin());
}

// The part of a plan that some moves need, renumbered.
class Selection {
 public:
  Selection(const PlanRep& rep, const ProgramIndex& index) : rep_(rep), index_(index) {
    program_.schedule = rep.schedule;
    program_.windows = rep.figures.summary.windows;
  }

  HostProgram OfHost(int32_t host) && {
    AddMoves(host);
    AddSegments();
    AddCuts();
    AddAtoms();
    return std::move(program_);
  }

 private:
  void AddMoves(int32_t host) {
    int32_t round = 0;
    for (const int32_t number : index_.MovesOf(host)) {
      while (number >= rep_.round_begin[round + 1]) ++round;
      const PackedMove& move = rep_.moves[number];
      AddMove(move, round, move.whole ? nullptr : StripeOf(number));
    }
  }

  const StripeOfMove* StripeOf(int32_t number) const {
    return &*std::lower_bound(
        rep_.stripes.begin(), rep_.stripes.end(), number,
        [](const StripeOfMove& stripe, int32_t move) { return stripe.move < move; });
  }

  void AddMove(const PackedMove& move, int32_t round, const StripeOfMove* stripe) {
    program_.segment_numbers.push_back(move.segment);
    program_.moves.push_back(
        {.segment = move.segment,
         .from_device = move.from_device,
         .to_device = move.to_device,
         .from_space = move.from_space(),
         .to_space = move.to_space(),
         .hop = move.hop,
         .round = round,
         .lo = stripe != nullptr ? stripe->lo : 0,
         .hi = stripe != nullptr ? stripe->hi : rep_.SegmentAt(move.segment).size()});
  }

  void AddSegments() {
    SortUnique(program_.segment_numbers);
    for (Move& move : program_.moves) {
      move.segment = IndexIn(program_.segment_numbers, move.segment);
    }
    // Segments are in the order of their tapes.
    for (const int32_t number : program_.segment_numbers) {
      Segment segment = rep_.SegmentAt(number);
      if (program_.tape_numbers.empty() || program_.tape_numbers.back() != segment.tape) {
        program_.tape_numbers.push_back(segment.tape);
      }
      segment.tape = static_cast<int32_t>(program_.tape_numbers.size()) - 1;
      program_.segments.push_back(segment);
    }
  }

  void AddCuts() {
    std::vector<std::vector<int64_t>> cuts(program_.segments.size());
    for (size_t s = 0; s < cuts.size(); ++s) {
      for (const int32_t number : index_.StripesOf(program_.segment_numbers[s])) {
        const StripeOfMove& stripe = rep_.stripes[number];
        cuts[s].insert(cuts[s].end(), {stripe.lo, stripe.hi});
      }
    }
    for (auto& of_segment : cuts) SortUnique(of_segment);
    KeepInside(cuts);
    if (std::all_of(cuts.begin(), cuts.end(), [](const auto& c) { return c.empty(); })) return;
    program_.cut_begin.push_back(0);
    for (const auto& of_segment : cuts) {
      program_.cuts.insert(program_.cuts.end(), of_segment.begin(), of_segment.end());
      program_.cut_begin.push_back(static_cast<int32_t>(program_.cuts.size()));
    }
  }

  // Keeps the cuts of each segment that lie inside a stripe of this program's moves.
  void KeepInside(std::vector<std::vector<int64_t>>& cuts) const {
    std::vector<std::vector<bool>> inside(cuts.size());
    for (size_t s = 0; s < cuts.size(); ++s) inside[s].resize(cuts[s].size(), false);
    for (const Move& move : program_.moves) {
      const std::vector<int64_t>& all = cuts[move.segment];
      const auto first = std::upper_bound(all.begin(), all.end(), move.lo);
      const auto last = std::lower_bound(first, all.end(), move.hi);
      std::fill(inside[move.segment].begin() + (first - all.begin()),
                inside[move.segment].begin() + (last - all.begin()), true);
    }
    for (size_t s = 0; s < cuts.size(); ++s) {
      size_t kept = 0;
      for (size_t i = 0; i < cuts[s].size(); ++i) {
        if (inside[s][i]) cuts[s][kept++] = cuts[s][i];
      }
      cuts[s].resize(kept);
    }
  }

  void AddAtoms() {
    program_.tape_begin.push_back(0);
    for (const int32_t tape : program_.tape_numbers) {
      program_.atoms.insert(program_.atoms.end(), rep_.atoms.begin() + rep_.tape_begin[tape],
                            rep_.atoms.begin() + rep_.tape_begin[tape + 1]);
      program_.tape_begin.push_back(static_cast<int32_t>(program_.atoms.size()));
    }
    std::vector<int32_t> numbers = program_.atoms;
    SortUnique(numbers);
    for (int32_t& atom : program_.atoms) atom = IndexIn(numbers, atom);
    AddClasses(numbers);
  }

  void AddClasses(const std::vector<int32_t>& atom_numbers) {
    auto from = rep_.geometry.classes.begin();
    for (size_t i = 0; i < atom_numbers.size(); ++i) {
      const int32_t number = atom_numbers[i];
      const bool new_class = i == 0 || number >= from->first_atom + from->atom_count;
      if (new_class) {
        from = std::prev(std::upper_bound(
            from, rep_.geometry.classes.end(), number,
            [](int32_t atom, const ArrayClass& one) { return atom < one.first_atom; }));
        program_.geometry.classes.push_back({.arrays = from->arrays,
                                             .element_bits = from->element_bits,
                                             .first_atom = static_cast<int32_t>(i)});
      }
      ++program_.geometry.classes.back().atom_count;
      program_.geometry.classes.back().boxes.push_back(from->AtomBox(number));
    }
  }

  const PlanRep& rep_;
  const ProgramIndex& index_;
  HostProgram program_;
};

}  // namespace

HostProgram ProgramOfHost(const Plan& plan, const ProgramIndex& index, int32_t host) {
  return Selection(plan.rep(), index).OfHost(host);
}

HostProgram ProgramOfHost(const Plan& plan, int32_t host) {
  return ProgramOfHost(plan, ProgramIndex(plan), host);
}

namespace {

std::vector<TapeRuns> TapesOf(const HostProgram& program) {
  std::vector<TapeRuns> tapes;
  tapes.reserve(program.tape_numbers.size());
  for (size_t s = 0; s < program.tape_numbers.size(); ++s) {
    tapes.push_back(program.RunsOfTape(static_cast<int32_t>(s)));
  }
  return tapes;
}

// A move of the program as work on `stripe`. Tapes have their numbers in the plan, or in this
// program.
Work WorkOf(const HostProgram& program, const std::vector<TapeRuns>& tapes, const Move& move,
            Interval stripe) {
  const Segment& segment = program.segments[move.segment];
  return {.from_device = move.from_device,
          .to_device = move.to_device,
          .from_space = move.from_space,
          .to_space = move.to_space,
          .hop = move.hop,
          .segment = segment,
          .segment_number = program.segment_numbers[move.segment],
          .stripe = stripe,
          .tape = &tapes[segment.tape]};
}

}  // namespace

void ForEachTransfer(const HostProgram& program, absl::FunctionRef<bool(const Transfer&)> visit) {
  const std::vector<TapeRuns> tapes = TapesOf(program);
  Expansion expansion(program.geometry, program.schedule, program.windows);
  for (const Move& move : program.moves) {
    Work work = WorkOf(program, tapes, move, {move.lo, move.hi});
    work.segment.tape = program.tape_numbers[work.segment.tape];
    expansion.Add(move.round, work);
  }
  expansion.ForEachTransfer(visit);
}

namespace {

// The areas for what the devices of a program stage: complete for the devices of its own host.
RelayAreas RelaysOf(const HostProgram& program, const std::vector<TapeRuns>& tapes) {
  MovedSegments moved{.schedule = program.schedule,
                      .segments = program.segments,
                      .numbers = program.segment_numbers,
                      .unit_bits = {},
                      .cuts = program.cuts,
                      .cut_begin = program.cut_begin};
  for (const TapeRuns& tape : tapes) moved.unit_bits.push_back(tape.unit_bits);
  int32_t devices = 0;
  for (const Move& move : program.moves) devices = std::max(devices, move.to_device + 1);
  return LayOutRelays(moved, program.moves, devices);
}

}  // namespace

void ForEachStretch(const HostProgram& program, absl::FunctionRef<bool(const Stretch&)> visit) {
  const std::vector<TapeRuns> tapes = TapesOf(program);
  const RelayAreas relays = RelaysOf(program, tapes);
  Expansion expansion(program.geometry, program.schedule, program.windows);
  for (const Move& move : program.moves) {
    ForEachPiece(program.CutsOf(move.segment), {move.lo, move.hi}, [&](Interval piece) {
      Work work = WorkOf(program, tapes, move, piece);
      if (move.to_space == Space::kStaging && piece.size() > 0) {
        work.staged = &relays.PieceAt(move.to_device, move.segment, piece.lo);
      }
      expansion.Add(move.round, work);
    });
  }
  expansion.ForEachPart([&](int32_t window, const Work& work, Interval range) {
    const Interval rounded =
        program.geometry.Rounded(*work.tape, range, program.schedule.slack_bits);
    if (rounded.lo == rounded.hi) return true;
    const int32_t turn = window / program.schedule.rounds - work.hop;
    return visit({.window = window,
                  .tape = work.segment.tape,
                  .lo = rounded.lo,
                  .hi = rounded.hi,
                  .from_device = work.from_device,
                  .to_device = work.to_device,
                  .from_space = work.from_space,
                  .to_space = work.to_space,
                  .staged_at = StagedAt(work, program.schedule, turn)});
  });
}

void ForEachTransferOfHost(const Plan& plan, int32_t host,
                           absl::FunctionRef<void(const Transfer&)> visit) {
  ForEachTransfer(ProgramOfHost(plan, host), [&](const Transfer& transfer) {
    visit(transfer);
    return true;
  });
}

}  // namespace remesh::planner
