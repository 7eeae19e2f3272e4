// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/device/shard_view.h"
#include "worker/device/strided_runs.h"

namespace remesh::worker {

// Where one box of a tape is in memory. The box's elements, in row-major order, are the tape's
// next bits.
struct TapePiece {
  int64_t begin = 0;          // of the box's bits, on the tape
  int64_t end = 0;            // after the box's last bit
  std::byte* data = nullptr;  // of the shard
  StridedRuns runs;           // where the bits lie, from bit 0 of `data`
};

// Where the bits of one tape, or of a range of it, lie in the memory of one device: in boxes of
// shards, or in packed memory. A value; the memory must outlive it.
class TapeView {
 public:
  TapeView() = default;
  // Packed: bit lo of the tape is bit 0 of `data`.
  TapeView(std::byte* data, int64_t lo, int64_t hi);

  // Appends the tape's next piece. REQUIRES: the shard holds `box`, which is not empty.
  void Add(const ShardView& shard, const planner::Box& box);

  // In ascending order; each begins where the one before ends.
  const std::vector<TapePiece>& pieces() const { return pieces_; }
  int64_t begin() const { return pieces_.empty() ? 0 : pieces_.front().begin; }
  int64_t end() const { return pieces_.empty() ? 0 : pieces_.back().end; }
  // REQUIRES: begin() <= position < end().
  const TapePiece& PieceAt(int64_t position) const;

  // Where [lo, hi) is if it is one run of whole bytes; null otherwise.
  std::byte* Contiguous(int64_t lo, int64_t hi) const;

 private:
  std::vector<TapePiece> pieces_;
};

}  // namespace remesh::worker
