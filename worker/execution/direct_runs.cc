// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/direct_runs.h"

#include <algorithm>

#include "base/int_math.h"
#include "worker/device/tape_cursor.h"

namespace remesh::worker {
namespace {

// Appends the runs of one piece. False if some of its bits share a byte with others, or there are
// too many runs.
bool AddRuns(const TapeView& view, const SlicePiece& piece, size_t runs_max, Runs& runs) {
  TapeCursor cursor(view, piece.lo);
  for (int64_t left = piece.hi - piece.lo; left > 0;) {
    const int64_t bits = std::min(left, cursor.bits());
    std::byte* const data = cursor.Contiguous(bits);
    if (data == nullptr || runs.size() == runs_max) return false;
    runs.emplace_back(data, static_cast<size_t>(bits / 8));
    cursor.Skip(bits);
    left -= bits;
  }
  return true;
}

}  // namespace

Runs DirectRuns(const MoveList& list, const Slice& slice, bool gathers, int64_t run_bytes) {
  if (!list.in_host_memory) return {};
  const int64_t runs_max = gathers ? std::max<int64_t>(slice.bytes / run_bytes, 1) : 1;
  Runs runs;
  int64_t offset = 0;  // of what is found so far
  for (const SlicePiece& piece : list.messages.PiecesOf(slice)) {
    const BoundMove& move = list.moves[piece.move];
    const TapeView& view = *(move.source != nullptr ? move.source : move.target);
    const bool adjacent = piece.offset == offset;
    if (!adjacent || !AddRuns(view, piece, static_cast<size_t>(runs_max), runs)) return {};
    offset += BytesOfBits(piece.hi - piece.lo);
  }
  return offset == slice.bytes ? runs : Runs();
}

}  // namespace remesh::worker
