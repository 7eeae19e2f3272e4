// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "planner/values/box.h"

namespace remesh::worker {

// A box in a dense row-major frame, as runs of adjacent bits: as few and as long as possible. Run
// (i0, i1, ..) of `loops` is at bit + sum(i * stride). All in bits. Example: rows 1..2 of
// u8[4][6]: one run of 96 bits from bit 48, no loops.
struct StridedRuns {
  struct Loop {
    int64_t count;  // > 1
    int64_t stride;
  };

  int64_t run_bits = 0;  // 0 iff the box is empty; then there are no loops
  int64_t bit = 0;
  absl::InlinedVector<Loop, 4> loops;  // outermost first
};

// REQUIRES: the frame contains `box`.
StridedRuns MakeRuns(const planner::Box& frame, const planner::Box& box, int bits_per_element);

// Copies `count` rows of `row_bytes`; strides in bytes.
void CopyRows(const std::byte* source, int64_t source_stride, std::byte* target,
              int64_t target_stride, int64_t count, int64_t row_bytes);

// Calls visit(bit) for each combination of the first `depth` loops, in row-major order.
template <typename Visit>
void ForEachStart(const StridedRuns& runs, size_t depth, Visit visit) {
  absl::InlinedVector<int64_t, 4> index(depth, 0);
  int64_t bit = runs.bit;
  while (true) {
    visit(bit);
    size_t d = depth;
    while (d > 0) {
      const StridedRuns::Loop& loop = runs.loops[--d];
      bit += loop.stride;
      if (++index[d] < loop.count) break;
      bit -= loop.count * loop.stride;
      index[d] = 0;
      if (d == 0) return;
    }
    if (depth == 0) return;
  }
}

}  // namespace remesh::worker
