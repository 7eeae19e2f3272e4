// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/moves/moves.h"

namespace remesh::planner {

// The most messages that a device may send in one window, and the most that it may receive: NCCL
// runs a rank's group as one kernel up to about so many.
inline constexpr int64_t kMessagesPerWindowMax = 256;
inline constexpr int64_t kWindowsMax = int64_t{1} << 20;

// The times at which moves happen. Every segment is cut into `parts` equal parts, one for each
// turn. In turn i, a move of hop l and round r works in window (i + l) * rounds + r, so a device
// passes a part on in a later window than it received it: in another hop, or in a later round.
// Small segments have fewer parts, none below min_part_bits, and rest in the other turns.
//
// A later window is enough, be it the next one: a worker may have several windows in progress, but
// begins each move only once the one that brings what it passes on is done (Mover::StartWindow), over
// every transport, and refuses programs that pass something on in the window in which it comes
// (moves.cc). That plans always come later, for every part, is checked by ValidatePlan() and, bit by
// bit, by program_law_test.
struct Schedule {
  int32_t parts = 1;
  int32_t rounds = 1;
  int32_t hops = 1;
  int64_t min_part_bits = 1;
  int64_t slack_bits = 0;  // see AtomGeometry

  int32_t windows() const { return (parts + hops - 1) * rounds; }
  // The number of parts in which a segment of `size` bits moves.
  int64_t PartsOf(int64_t size) const {
    return std::min<int64_t>(parts, (size + min_part_bits - 1) / min_part_bits);
  }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Moves in their windows: the result of scheduling. Their segments are those that the moves were
// made of.
struct Timeline {
  std::vector<Move> moves;           // some of them cut; by round, then hop
  std::vector<int32_t> round_begin;  // moves of round r: [round_begin[r], round_begin[r + 1])
  Schedule schedule;
  int64_t messages = 0;             // ordered device pairs that exchange bytes, summed over windows
  double predicted_seconds = 0;     // see cost_model.h
  double schedule_seconds = 0;      // the same, as if messages cost nothing beside their bytes
  bool is_good = false;             // whether schedule_seconds are about those of the busiest link
  bool is_dear = false;             // whether a long plan's messages make it much slower than that
  std::vector<int64_t> peak_bytes;  // per device: see memory.h
};

}  // namespace remesh::planner
