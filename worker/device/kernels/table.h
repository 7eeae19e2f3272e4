// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace remesh::kernels {

inline constexpr int kLoopsMax = 5;

// Where one stretch of a tape lies in memory: runs of adjacent bits, at (i0, i1, ..) of the loops at
// first_bit + sum(i * stride). All in bits.
struct PieceEntry {
  struct Loop {
    int64_t count;
    int64_t stride;
  };

  unsigned char* data;
  int64_t begin, end;  // on the tape
  int64_t first_bit;   // of the first run, from data
  int64_t run_bits;
  Loop loops[kLoopsMax];  // innermost first; those that it lacks are counted once
};

enum class DigestUse : int32_t { kNone, kWrite, kCompare };

// One chunk: what is moved, by one warp.
struct ChunkEntry {
  int64_t lo, hi;     // on the source's tape
  int64_t target_hi;  // hi, or a multiple of 16 bytes behind lo where those are the target's alone
  int32_t source;     // the piece that holds `lo`; those after it hold the rest
  int32_t target;     // likewise; -1: it is only read
  DigestUse use;
};

// A table in memory that the device reads. `digests` has a place for each chunk; `first_wrong` ends
// as the least index of a chunk whose digest is another, or stays.
struct TableView {
  const PieceEntry* pieces;
  const ChunkEntry* chunks;
  uint64_t* digests;
  int64_t* first_wrong;
};

}  // namespace remesh::kernels
