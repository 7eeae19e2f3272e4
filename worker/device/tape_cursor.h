// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "worker/device/tape_view.h"

namespace remesh::worker {

// Walks a tape through memory, run by run: a run is adjacent both on the tape and in memory.
class TapeCursor {
 public:
  // REQUIRES: view.begin() <= position < view.end(); the view outlives the cursor.
  TapeCursor(const TapeView& view, int64_t position);

  // The rest of the run at hand.
  std::byte* data() const { return piece_->data; }
  int64_t bit() const { return bit_; }        // of data(), where the rest of the run begins
  int64_t bits() const { return run_left_; }  // > 0 unless the view has ended

  // Number of whole runs that follow from here at one stride, which is in bits; 0 inside a run.
  int64_t rows() const;
  int64_t row_bits() const { return piece_->runs.run_bits; }
  int64_t stride() const {
    return piece_->runs.loops.empty() ? 0 : piece_->runs.loops.back().stride;
  }
  // Where the next `bits` bits lie if they are one run of whole bytes; null otherwise.
  std::byte* Contiguous(int64_t bits) const {
    return bits > run_left_ || (bits | bit_) % 8 != 0 ? nullptr : data() + bit_ / 8;
  }

  // REQUIRES: for Skip(), at most bits(); for SkipRows(), at most rows().
  void Skip(int64_t bits);
  void SkipRows(int64_t rows);

 private:
  void Enter(int64_t offset);
  void NextRun();

  const TapeView* view_;
  const TapePiece* piece_;
  absl::InlinedVector<int64_t, 4> index_;  // per loop of the piece
  int64_t bit_ = 0;
  int64_t run_left_ = 0;
};

// Packs the next `bits` bits from bit 0 of `out`, BytesOfBits(bits) long; the bits after the last
// become zero.
void Pack(TapeCursor& from, int64_t bits, std::byte* out);
// The inverse. Bytes that the range only partly covers may have other writers, which take turns;
// the others are not touched.
void Unpack(const std::byte* in, int64_t bits, TapeCursor& to);

}  // namespace remesh::worker
