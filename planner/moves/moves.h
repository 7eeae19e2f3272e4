// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/values/space.h"

namespace remesh::planner {

// A range [lo, hi) of a tape that takes one path through the network.
struct Segment {
  int32_t tape = 0;
  int64_t lo = 0;
  int64_t hi = 0;

  int64_t size() const { return hi - lo; }
  friend bool operator==(const Segment&, const Segment&) = default;
};

// One step of a segment's path: the stripe [lo, hi) of it, in the segment's coordinates 0..size(),
// goes from one device to another.
struct Move {
  int32_t segment = 0;
  int32_t from_device = 0;
  int32_t to_device = 0;
  Space from_space = Space::kSource;
  Space to_space = Space::kTarget;
  int32_t hop = 0;    // needs what moves of lower hops delivered, and of its own in earlier rounds
  int32_t round = 0;  // 0 .. rounds - 1
  int64_t lo = 0;
  int64_t hi = 0;

  friend bool operator==(const Move&, const Move&) = default;
};

// Who sends what to whom: the result of routes and striping. Its size depends on the layouts, not
// on the number of arrays or windows.
struct Moves {
  std::vector<Segment> segments;  // in the order of their tapes
  std::vector<Move> moves;        // rounds not set
  int64_t slack_bits = 0;         // how far cuts may move to fall between rows
};

}  // namespace remesh::planner
