// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "planner/atoms/tape.h"
#include "planner/plan/plan.h"
#include "planner/plan/program_index.h"
#include "planner/plan/transfer.h"
#include "planner/schedule/timeline.h"

namespace remesh::planner {

// One host's part of a plan, before it is expanded: moves over segments of tapes, the atoms of
// these tapes, and the arrays that share the atoms. Its size depends on the layouts, not on the
// number of windows nor, except for the list of their names, on the number of arrays. It goes over
// the wire instead of a box for each transfer.
struct HostProgram {
  Schedule schedule;
  int32_t windows = 0;                // of the whole plan
  AtomGeometry geometry;              // classes that have an atom here, each with a list of boxes
  std::vector<int32_t> atoms;         // tape after tape, rising within each
  std::vector<int32_t> tape_begin;    // atoms of tape s: [tape_begin[s], tape_begin[s + 1])
  std::vector<int32_t> tape_numbers;  // in the plan, rising: Transfer::tape
  std::vector<Segment> segments;      // Segment::tape counts the tapes here
  std::vector<int32_t> segment_numbers;  // in the plan, rising
  // Where moves of the same segment, on other hosts too, cut the stripes of this host's moves:
  // positions in the segment, segment after segment, rising. Ranges between cuts move whole on
  // every hop.
  std::vector<int64_t> cuts;
  std::vector<int32_t> cut_begin;  // of segment s: [cut_begin[s], cut_begin[s + 1]); empty: no cuts
  std::vector<Move> moves;  // by round, in the plan's order; Move::segment counts the segments here

  absl::Span<const int64_t> CutsOf(int32_t segment) const {
    if (cuts.empty()) return {};
    return absl::MakeConstSpan(cuts).subspan(cut_begin[segment],
                                             cut_begin[segment + 1] - cut_begin[segment]);
  }
  TapeRuns RunsOfTape(int32_t tape) const {
    return geometry.RunsOf(absl::MakeConstSpan(atoms).subspan(
        tape_begin[tape], tape_begin[tape + 1] - tape_begin[tape]));
  }
  friend bool operator==(const HostProgram&, const HostProgram&) = default;
};

// The moves with an end on `host` (canonical index). Arrays and devices are canonical. For one host of
// many, make the plan's index once.
HostProgram ProgramOfHost(const Plan& plan, const ProgramIndex& index, int32_t host);
HostProgram ProgramOfHost(const Plan& plan, int32_t host);

// Visits the transfers of a program in the plan's order, with the code that expands whole plans.
// Once `visit` has returned false it may still be called for the rest of the part, but for no
// further part. REQUIRES: every index and every range lies within what it refers to.
void ForEachTransfer(const HostProgram& program, absl::FunctionRef<bool(const Transfer&)> visit);

// A range of a tape that moves whole from hop to hop, on one of these hops.
struct Stretch {
  int32_t window = 0;
  int32_t tape = 0;  // of the program's
  int64_t lo = 0;
  int64_t hi = 0;
  int32_t from_device = 0;
  int32_t to_device = 0;
  Space from_space = Space::kSource;
  Space to_space = Space::kTarget;
  // Position in to_device's area for staged data (relay_areas.h), which only that device's own host
  // knows; -1 where the stretch is not staged.
  int64_t staged_at = -1;

  friend bool operator==(const Stretch&, const Stretch&) = default;
};

// Visits the same transfers as stretches, before they become boxes, in the same order, until
// `visit` returns false. The stretches that a device passes on are among those that it received.
// REQUIRES: as above.
void ForEachStretch(const HostProgram& program, absl::FunctionRef<bool(const Stretch&)> visit);

// Like Plan::ForEachTransfer(), but only transfers with an end on `host` (canonical index).
void ForEachTransferOfHost(const Plan& plan, int32_t host,
                           absl::FunctionRef<void(const Transfer&)> visit);

}  // namespace remesh::planner
