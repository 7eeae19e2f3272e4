// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/atoms/missing_box.h"
#include "planner/atoms/tape.h"
#include "planner/schedule/timeline.h"
#include "planner/values/plan_summary.h"

namespace remesh::planner {

// A Move of a finished plan, in 16 bytes. Most moves take their whole segment; the stripes of the
// others are in PlanRep::stripes.
struct PackedMove {
  int32_t segment = 0;
  int32_t from_device = 0;
  int32_t to_device = 0;
  int16_t hop = 0;
  int8_t spaces = 0;  // from_space * 4 + to_space
  bool whole = true;

  Space from_space() const { return static_cast<Space>(spaces / 4); }
  Space to_space() const { return static_cast<Space>(spaces % 4); }
  friend bool operator==(const PackedMove&, const PackedMove&) = default;
};

// The stripe [lo, hi) of move number `move`.
struct StripeOfMove {
  int32_t move = 0;
  int64_t lo = 0;
  int64_t hi = 0;

  friend bool operator==(const StripeOfMove&, const StripeOfMove&) = default;
};

// A finished plan, packed to what expansion needs; see Atoms, Moves and Timeline for the meaning.
// For the files of plan/ and those that read and check plans; all others use Plan.
struct PlanRep {
  AtomGeometry geometry;
  std::vector<MissingBox> missing;
  std::vector<int64_t> target_order;  // device -> device that takes its place; empty: as requested
  std::vector<int32_t> host_of;
  std::vector<int32_t> atoms;         // tape after tape
  std::vector<int32_t> tape_begin;    // atoms of tape s: [tape_begin[s], tape_begin[s + 1])
  std::vector<int32_t> segment_tape;  // segment -> tape; segments of a tape adjoin in order
  std::vector<int64_t> segment_hi;
  std::vector<PackedMove> moves;      // by round, then hop
  std::vector<StripeOfMove> stripes;  // by move
  std::vector<int32_t> round_begin;
  Schedule schedule;
  Figures figures;
  std::vector<int64_t> peak_bytes;

  Segment SegmentAt(int32_t index) const {
    const bool first = index == 0 || segment_tape[index - 1] != segment_tape[index];
    return {segment_tape[index], first ? 0 : segment_hi[index - 1], segment_hi[index]};
  }
  TapeRuns RunsOfTape(int32_t tape) const {
    return geometry.RunsOf(absl::MakeConstSpan(atoms).subspan(
        tape_begin[tape], tape_begin[tape + 1] - tape_begin[tape]));
  }
  int64_t bytes() const;  // of memory
  friend bool operator==(const PlanRep&, const PlanRep&) = default;
};

}  // namespace remesh::planner
