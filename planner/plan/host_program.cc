// SPDX-License-Identifier: Apache-2.0
#include "planner/plan/host_program.h"

#include <algorithm>

#include "planner/plan/expansion.h"
#include "planner/plan/plan_rep.h"

namespace remesh {
namespace {

void SortUnique(std::vector<int32_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// Where a number stands in a rising list that holds it.
int32_t IndexIn(const std::vector<int32_t>& numbers, int32_t number) {
  return static_cast<int32_t>(std::lower_bound(numbers.begin(), numbers.end(), number) -
                              numbers.begin());
}

// The part of a plan that some moves need, numbered anew.
class Selection {
 public:
  explicit Selection(const PlanRep& rep) : rep_(rep) {
    program_.schedule = rep.schedule;
    program_.windows = rep.figures.summary.windows;
  }

  HostProgram OfHost(int32_t host) && {
    AddMoves(host);
    AddSegments();
    AddAtoms();
    return std::move(program_);
  }

 private:
  void AddMoves(int32_t host) {
    auto stripe = rep_.stripes.begin();
    for (int32_t r = 0; r < rep_.schedule.rounds; ++r) {
      for (int32_t i = rep_.round_begin[r]; i < rep_.round_begin[r + 1]; ++i) {
        const PackedMove& move = rep_.moves[i];
        if (rep_.host_of[move.from_device] == host || rep_.host_of[move.to_device] == host) {
          AddMove(move, r, move.whole ? nullptr : &*stripe);
        }
        if (!move.whole) ++stripe;
      }
    }
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
  HostProgram program_;
};

}  // namespace

HostProgram ProgramOfHost(const Plan& plan, int32_t host) {
  return Selection(plan.rep()).OfHost(host);
}

void ForEachTransfer(const HostProgram& program, absl::FunctionRef<bool(const Transfer&)> visit) {
  std::vector<TapeRuns> tapes;
  tapes.reserve(program.tape_numbers.size());
  for (size_t s = 0; s < program.tape_numbers.size(); ++s) {
    tapes.push_back(program.RunsOfTape(static_cast<int32_t>(s)));
  }
  Expansion expansion(program.geometry, program.schedule, program.windows);
  for (const Move& move : program.moves) {
    const Segment& segment = program.segments[move.segment];
    expansion.Add(move.round,
                  {.from_device = move.from_device,
                   .to_device = move.to_device,
                   .from_space = move.from_space,
                   .to_space = move.to_space,
                   .hop = move.hop,
                   .segment = {program.tape_numbers[segment.tape], segment.lo, segment.hi},
                   .segment_number = program.segment_numbers[move.segment],
                   .stripe = {move.lo, move.hi},
                   .tape = &tapes[segment.tape]});
  }
  expansion.ForEachTransfer(visit);
}

void ForEachTransferOfHost(const Plan& plan, int32_t host,
                           absl::FunctionRef<void(const Transfer&)> visit) {
  ForEachTransfer(ProgramOfHost(plan, host), [&](const Transfer& transfer) {
    visit(transfer);
    return true;
  });
}

}  // namespace remesh
