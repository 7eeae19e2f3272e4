// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/atoms/atoms.h"
#include "planner/plan/plan.h"
#include "planner/values/budget.h"

namespace remesh {

// A range [lo, hi) of a sub's tape that takes one way through the network.
struct Segment {
  int32_t sub = 0;
  int64_t lo = 0;
  int64_t hi = 0;

  int64_t size() const { return hi - lo; }
  friend bool operator==(const Segment&, const Segment&) = default;
};

// One step of a segment's way: the stripe [lo, hi) of it, in the segment's coordinates 0..size(),
// goes from one device to another.
struct Move {
  int32_t segment = 0;
  int32_t from_device = 0;
  int32_t to_device = 0;
  Space from_space = Space::kSource;
  Space to_space = Space::kTarget;
  int32_t stage = 0;  // a move of stage l needs what moves of stages below l brought
  int32_t round = 0;  // 0 .. rounds - 1
  int64_t lo = 0;
  int64_t hi = 0;

  friend bool operator==(const Move&, const Move&) = default;
};

// When things happen. Every segment is cut into `slices` equal parts, and slice i of a move of
// stage l and round r is done in window (i + l) * rounds + r: a device passes a slice on in a later
// window than it got it in. Small segments move in few of the slices only, so that no part is below
// min_part_bits.
struct Schedule {
  int32_t slices = 1;
  int32_t rounds = 1;
  int32_t stages = 1;
  int64_t min_part_bits = 1;

  int32_t windows() const { return (slices + stages - 1) * rounds; }
  // In how many slices a segment of `size` bits moves.
  int64_t PartsOf(int64_t size) const {
    return std::min<int64_t>(slices, (size + min_part_bits - 1) / min_part_bits);
  }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// A plan in the making: what the steps of MakePlan() hand on. Its size depends on the layouts,
// neither on the number of arrays nor on that of windows.
struct PlanDraft {
  Atoms atoms;
  std::vector<int32_t> host_of;  // device -> host
  std::vector<Segment> segments;
  std::vector<Move> moves;           // in the end by round, then stage
  std::vector<int32_t> round_begin;  // moves of round r: [round_begin[r], round_begin[r + 1])
  Schedule schedule;
  PlanSummary summary;
  Certificate lower_bound;
  Certificate routing_bound;
  std::vector<int64_t> peak_bytes;
  Budget* budget = &Budget::Unlimited();  // of all steps
};

}  // namespace remesh
