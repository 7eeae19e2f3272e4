// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/schedule/moved_segments.h"
#include "planner/values/budget.h"

namespace remesh::planner {

// The memory of a device for messages on their way to and from other hosts: two halves, which
// windows use in turn. A window starts when all work of the window before the last is done, so that
// nothing is allocated during a move, and nothing is overwritten that is still needed.
class TransitArea {
 public:
  // Makes room for the messages of a window, which take `bytes` bytes.
  void Fit(int64_t window, int64_t bytes) {
    int64_t& half = halves_[window % 2];
    half = std::max(half, bytes);
  }
  // Where the window's half begins, once all windows have been fitted in.
  int64_t BeginOf(int64_t window) const { return window % 2 == 0 ? 0 : halves_[0]; }
  int64_t bytes() const { return halves_[0] + halves_[1]; }

 private:
  std::array<int64_t, 2> halves_ = {0, 0};
};

// Bytes of the areas by device, or a little more: every part counts as the largest part of its
// stripe; and where exactness would take more than `steps_max` steps, a segment with fewer parts
// than turns counts as if it moved in every turn from its first to its last. `moves` by rising
// rounds. The result must not be used once the budget is spent.
inline constexpr int64_t kTransitStepsMax = int64_t{1} << 20;
std::vector<int64_t> TransitBytes(const MovedSegments& moved, absl::Span<const Move> moves,
                                  absl::Span<const int32_t> host_of,
                                  int64_t steps_max = kTransitStepsMax,
                                  Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
