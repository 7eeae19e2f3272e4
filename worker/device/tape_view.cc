// SPDX-License-Identifier: Apache-2.0
#include "worker/device/tape_view.h"

#include <algorithm>

#include "base/check.h"
#include "worker/device/tape_cursor.h"

namespace remesh::worker {

TapeView::TapeView(std::byte* data, int64_t lo, int64_t hi) {
  pieces_.push_back({lo, hi, data, {.run_bits = hi - lo, .loops = {}}});
}

void TapeView::Add(const ShardView& shard, const planner::Box& box) {
  const int64_t begin = end();
  pieces_.push_back({begin, begin + box.element_count() * shard.bits_per_element, shard.data,
                     MakeRuns(shard.frame, box, shard.bits_per_element)});
}

const TapePiece& TapeView::PieceAt(int64_t position) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), position,
                       [](int64_t at, const TapePiece& piece) { return at < piece.begin; });
  REMESH_CHECK(after != pieces_.begin() && position < std::prev(after)->end);
  return *std::prev(after);
}

std::byte* TapeView::Contiguous(int64_t lo, int64_t hi) const {
  return TapeCursor(*this, lo).Contiguous(hi - lo);
}

}  // namespace remesh::worker
