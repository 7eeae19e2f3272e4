// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/device/kernels/lanes.h"
#include "worker/device/kernels/memory.h"
#include "worker/device/kernels/piece_place.h"
#include "worker/device/kernels/table.h"

namespace remesh::worker::kernels {

inline constexpr int64_t kUnitBytes = sizeof(Unit16), kUnitBits = kUnitBytes * 8;
inline constexpr uint32_t kChunkUnits = kChunkBits / kUnitBits;

// Where the units of 16 bytes of a whole chunk lie, if they lie in rows with one gap between them.
// The address of a unit takes few instructions and no division.
struct UnitRows {
  unsigned char* first = nullptr;  // the chunk's first unit; null: its bits lie otherwise
  int64_t gap = 0;                 // bytes from the end of a row to the begin of the next
  uint32_t before = 0;             // units of the first row before the chunk
  uint32_t inverse = 0;            // 2^kInverseLog / units of a row, rounded up

  // A row has at most kChunkUnits units, and `before` + `unit` is less than a row and a chunk
  // together. For such numbers the product with the rounded inverse fits 32 bits and its quotient
  // is exact.
  static constexpr int kInverseLog = 21;

  REMESH_HD unsigned char* At(uint32_t unit) const {
    const uint32_t row = (before + unit) * inverse >> kInverseLog;
    return first + unit * kUnitBytes + static_cast<int64_t>(row) * gap;
  }

  // Sets `before` and `inverse` for rows of `row_units` units, of which the first has `within` <
  // `row_units` before the chunk. A chunk meets at most one border of rows that are longer than it:
  // then a row of a chunk's length stands for them, placed so that it has that border.
  REMESH_HD void SetRow(uint64_t row_units, uint64_t within) {
    if (row_units > kChunkUnits) {
      const uint64_t left = row_units - within;
      within = left < kChunkUnits ? kChunkUnits - left : 0;
      row_units = kChunkUnits;
    }
    const uint32_t units = static_cast<uint32_t>(row_units);
    before = static_cast<uint32_t>(within);
    inverse = ((1u << kInverseLog) + units - 1) / units;
  }
};

// A chunk's units without gaps.
REMESH_HD inline UnitRows OneRow(unsigned char* first) {
  UnitRows rows;
  rows.first = first;
  rows.SetRow(kChunkUnits, 0);
  return rows;
}

// For quotients that are mostly 0.
REMESH_HD inline uint64_t MostlyZeroQuotient(uint64_t dividend, uint64_t divisor) {
  return dividend < divisor ? 0 : dividend / divisor;
}

// Begin of run number `run` of the piece, in bits from its data.
REMESH_HD inline int64_t BitOfRun(const PieceEntry& piece, uint64_t run) {
  int64_t bit = piece.first_bit;
  REMESH_NO_UNROLL
  for (int loop = 0; run != 0; ++loop) {
    const uint64_t count = static_cast<uint64_t>(piece.loops[loop].count);
    const uint64_t next = MostlyZeroQuotient(run, count);
    bit += static_cast<int64_t>(run - next * count) * piece.loops[loop].stride;
    run = next;
  }
  return bit;
}

// The rows of the whole chunk that begins at `lo` of the tape, in `piece`: its runs, if they belong
// to one turn of the innermost loop and are aligned.
REMESH_HD inline UnitRows RowsOfChunk(const PieceEntry& piece, int64_t lo) {
  if (piece.end - lo < kChunkBits) return {};
  const uint64_t run_bits = static_cast<uint64_t>(piece.run_bits);
  const uint64_t offset = static_cast<uint64_t>(lo - piece.begin);
  const uint64_t run = MostlyZeroQuotient(offset, run_bits), within = offset - run * run_bits;
  const uint64_t borders = SmallQuotient(within + kChunkBits - 1, run_bits);
  const uint64_t count = static_cast<uint64_t>(piece.loops[0].count);
  if (run - MostlyZeroQuotient(run, count) * count + borders >= count) return {};
  const int64_t bit = BitOfRun(piece, run) + static_cast<int64_t>(within);
  const int64_t stride = piece.loops[0].stride;
  uint64_t mask = reinterpret_cast<uintptr_t>(piece.data) * 8 + static_cast<uint64_t>(bit);
  if (borders > 0) mask |= within | run_bits | static_cast<uint64_t>(stride);
  if (mask % kUnitBits != 0) return {};
  UnitRows rows = OneRow(piece.data + bit / 8);
  if (borders > 0) {
    rows.gap = (stride - piece.run_bits) / 8;
    rows.SetRow(run_bits / kUnitBits, within / kUnitBits);
  }
  return rows;
}

}  // namespace remesh::worker::kernels
