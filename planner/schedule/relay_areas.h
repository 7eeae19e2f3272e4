// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/schedule/moved_segments.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// What a device stages for others of one stripe: a piece that goes whole on every hop, part after
// part. Parts take turns in slots, as many as are on the device at once.
struct StagedPiece {
  int32_t device = 0;
  int32_t segment = 0;  // of MovedSegments
  Interval stripe;      // of the segment
  int64_t comes = 0;    // windows after the part's turn in which it arrives
  int64_t leaves = 0;   // and is last passed on

  int64_t slot_bytes = 0;
  int64_t slots = 1;
  int64_t begin = 0;  // of the slots, in the device's area

  int64_t AddressOf(int64_t part) const { return begin + part % slots * slot_bytes; }
};

// Where devices keep what they stage: an area each, laid out before there is any memory. Planner and
// host lay it out by this, so that a plan says what its hosts take.
//
// The rule. A host starts window w when all it has to do in w - 2 is done, so what is last passed on
// in window f may be overwritten from f + 2 on. A slot of a piece serves the part that comes at
// least so many windows later; pieces are placed by first fit over their windows, from the first
// part's coming until two windows after the last one has left.
struct RelayAreas {
  std::vector<StagedPiece> pieces;  // by device, segment, stripe
  std::vector<int64_t> bytes;       // of the areas, by device

  // The piece that begins at `lo` of the segment. REQUIRES: the device stages it.
  const StagedPiece& PieceAt(int32_t device, int32_t segment, int64_t lo) const;
};

// Of no use once the budget is spent.
RelayAreas LayOutRelays(const MovedSegments& moved, absl::Span<const Move> moves,
                        int64_t device_count, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
