// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/schedule/moves.h"

namespace remesh {

// Most device pairs of one host that may exchange a message in one window: a bound on NCCL groups.
inline constexpr int64_t kOperationsPerWindowMax = 256;
// Windows narrower than this could not hold one element of every type; smaller values count as this
// one.
inline constexpr int64_t kWindowBytesMin = 256;
inline constexpr int64_t kWindowsMax = int64_t{1} << 20;

// When things happen. Every segment is cut into `slices` equal parts, and slice i of a move of
// stage l and round r is done in window (i + l) * rounds + r: a device passes a slice on in a later
// window than it got it in. Small segments move in few of the slices only, so that no part is below
// part_bits_min.
struct Schedule {
  int32_t slices = 1;
  int32_t rounds = 1;
  int32_t stages = 1;
  int64_t part_bits_min = 1;
  int64_t slack_bits = 0;  // see Tapes

  int32_t windows() const { return (slices + stages - 1) * rounds; }
  // In how many slices a segment of `size` bits moves.
  int64_t PartsOf(int64_t size) const {
    return std::min<int64_t>(slices, (size + part_bits_min - 1) / part_bits_min);
  }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Moves in their windows: what a schedule comes to. Segments are those that the moves were made of.
struct Timeline {
  std::vector<Move> moves;           // some cut; by round, then stage
  std::vector<int32_t> round_begin;  // moves of round r: [round_begin[r], round_begin[r + 1])
  Schedule schedule;
  int64_t operations = 0;           // messages: ordered device pairs at work, summed over windows
  double predicted_seconds = 0;     // see cost_model.h
  std::vector<int64_t> peak_bytes;  // per device: see memory.h
};

}  // namespace remesh
