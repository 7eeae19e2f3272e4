// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/schedule/moved_segments.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// A piece of one stripe that a device stages for others. It moves whole on every hop, part after
// part. Parts take turns in slots; there are as many slots as parts on the device at once.
struct StagedPiece {
  int32_t device = 0;
  int32_t segment = 0;  // of MovedSegments
  Interval stripe;      // of the segment
  int64_t comes = 0;    // window in which a part arrives, counted from the first window of its turn
  int64_t leaves = 0;   // window in which it is last passed on, likewise

  int64_t slot_bytes = 0;
  int64_t slots = 1;
  int64_t begin = 0;  // of the slots, in the device's area

  int64_t AddressOf(int64_t part) const { return begin + part % slots * slot_bytes; }
};

// Where devices keep what they stage: one area for each device, laid out before its memory exists.
// Planner and hosts use the same layout, so that a plan tells how much memory its hosts take.
//
// The rule. A host starts window w when all its work of window w - 2 is done, so bytes that are
// last passed on in window f may be overwritten from f + 2 on. A slot of a piece serves a later
// part that comes no earlier than that. Pieces are placed by first fit over their windows, from the
// arrival of the first part until two windows after the last part has left.
struct RelayAreas {
  std::vector<StagedPiece> pieces;  // by device, segment, stripe
  std::vector<int64_t> bytes;       // of the areas, by device

  // The piece that begins at position `lo` of the segment. REQUIRES: the device stages it.
  const StagedPiece& PieceAt(int32_t device, int32_t segment, int64_t lo) const;
};

// The result must not be used once the budget is spent.
RelayAreas LayOutRelays(const MovedSegments& moved, absl::Span<const Move> moves,
                        int64_t device_count, Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
