// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/device/kernels/lanes.h"
#include "worker/device/kernels/table.h"

namespace remesh::worker::kernels {

// Quotient for divisions in the tables, whose dividend is below 2^32 or below twice the divisor.
// 64-bit divisions are slow on GPUs.
REMESH_HD inline uint64_t SmallQuotient(uint64_t dividend, uint64_t divisor) {
  if (dividend < divisor) return 0;
  if (dividend - divisor < divisor) return 1;
  return static_cast<uint32_t>(dividend) / static_cast<uint32_t>(divisor);
}

// A position in a piece, and the runs from there on. A step of at most as many runs as a chunk has
// is cheap. It is in memory that all lanes read, because registers are few.
class PiecePlace {
 public:
  // `offset` in bits from the piece's begin.
  REMESH_HD void Set(const PieceEntry& piece, int64_t offset) {
    piece_ = piece;
    uint64_t run = static_cast<uint64_t>(offset) / static_cast<uint64_t>(piece.run_bits);
    within_ = offset - static_cast<int64_t>(run) * piece.run_bits;
    bit_ = piece.first_bit;
    REMESH_NO_UNROLL
    for (int loop = 0; loop < kLoopsMax; ++loop) {
      const uint64_t count = static_cast<uint64_t>(piece.loops[loop].count);
      const uint64_t next = run / count;
      digits_[loop] = run - next * count;
      bit_ += static_cast<int64_t>(digits_[loop]) * piece.loops[loop].stride;
      run = next;
    }
  }

  // Offset of the position in its run, in bits.
  REMESH_HD int64_t within() const { return within_; }
  REMESH_HD int64_t run_bits() const { return piece_.run_bits; }
  REMESH_HD unsigned char* data() const { return piece_.data; }

  // Begin of the run that is `runs` runs further on, in bits from data().
  REMESH_HD int64_t BitOfRun(uint64_t runs) const {
    int64_t bit = bit_;
    REMESH_NO_UNROLL
    for (int loop = 0; runs != 0; ++loop) {
      const uint64_t count = static_cast<uint64_t>(piece_.loops[loop].count);
      const uint64_t next = SmallQuotient(digits_[loop] + runs, count);
      // The difference is negative after a carry.
      bit += static_cast<int64_t>(runs - next * count) * piece_.loops[loop].stride;
      runs = next;
    }
    return bit;
  }

  // A mask of the address bits of all units of the next `bits` bits, in bits: its lowest set bit is
  // their common alignment.
  REMESH_HD uint64_t AlignmentMask(int64_t bits) const {
    uint64_t mask =
        reinterpret_cast<uintptr_t>(piece_.data) * 8 + static_cast<uint64_t>(bit_ + within_);
    if (within_ + bits > piece_.run_bits) {
      mask |= static_cast<uint64_t>(within_ | piece_.run_bits);
      REMESH_NO_UNROLL
      for (int loop = 0; loop < kLoopsMax; ++loop) {
        mask |= static_cast<uint64_t>(piece_.loops[loop].stride);
      }
    }
    return mask;
  }

 private:
  PieceEntry piece_;
  int64_t within_;
  int64_t bit_;  // of the position's run
  uint64_t digits_[kLoopsMax];
};

}  // namespace remesh::worker::kernels
