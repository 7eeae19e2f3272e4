// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "planner/values/box.h"

namespace remesh {

// One box in two dense row-major frames, as few and as long runs of adjacent bits as both allow:
// run (i0, i1, ..) of `loops` lies at source_bit + sum(i * source_stride) on one side and
// target_bit + sum(i * target_stride) on the other. All in bits. Example: rows 1..2 of u8[4][6]
// into a frame of just these rows: one run of 96 bits from bit 48, no loops.
struct StridedRuns {
  struct Loop {
    int64_t count;  // > 1
    int64_t source_stride;
    int64_t target_stride;
  };

  int64_t run_bits = 0;  // 0 iff the box is empty; then there are no loops
  int64_t source_bit = 0;
  int64_t target_bit = 0;
  absl::InlinedVector<Loop, 4> loops;  // outermost first

  // True when every run starts and ends on a byte on both sides.
  bool byte_aligned() const;
};

// REQUIRES: both frames contain `box`.
StridedRuns MakeRuns(const Box& source_frame, const Box& target_frame, const Box& box,
                     int bits_per_element);

// Copies every run. Bytes that a run only partly covers are updated atomically. REQUIRES: the two
// sides do not overlap.
void CopyRuns(const StridedRuns& runs, const std::byte* source, std::byte* target);

// Copies `count` rows of `row_bytes`; strides in bytes.
void CopyRows(const std::byte* source, int64_t source_stride, std::byte* target,
              int64_t target_stride, int64_t count, int64_t row_bytes);

// Calls visit(source_bit, target_bit) for each combination of the first `depth` loops, in row-major
// order.
template <typename Visit>
void ForEachStart(const StridedRuns& runs, size_t depth, Visit visit) {
  absl::InlinedVector<int64_t, 4> index(depth, 0);
  int64_t source = runs.source_bit, target = runs.target_bit;
  while (true) {
    visit(source, target);
    size_t d = depth;
    while (d > 0) {
      const StridedRuns::Loop& loop = runs.loops[--d];
      source += loop.source_stride;
      target += loop.target_stride;
      if (++index[d] < loop.count) break;
      source -= loop.count * loop.source_stride;
      target -= loop.count * loop.target_stride;
      index[d] = 0;
      if (d == 0) return;
    }
    if (depth == 0) return;
  }
}

}  // namespace remesh
