// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace remesh::worker::kernels {

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

// The unit of work and of digests: see worker/device/chunks.h.
inline constexpr int64_t kChunkBits = int64_t{128} << 10;

// Chunks of one stretch, one after the other from `lo` on; the last may be short. A table names parts,
// not chunks: what is told a device then does not grow with the bytes.
struct PartEntry {
  int64_t first_chunk;  // how many the parts before it have
  int64_t lo, hi;       // on the tape
  int64_t target_hi;  // hi, or a multiple of 16 bytes behind lo where those are the target's alone
  int32_t source;     // its pieces, of which the first holds `lo`
  int32_t source_count;
  int32_t target;  // likewise; -1: it is only read
  int32_t target_count;
  DigestUse use;
};

// A table in memory that the device reads. Parts have a chunk at least, each. `digests` has a place for
// each chunk; `first_wrong` ends as the least index of a chunk whose digest is another, or stays.
struct TableView {
  const PieceEntry* pieces;
  const PartEntry* parts;
  int32_t part_count;
  uint64_t* digests;
  int64_t* first_wrong;
};

}  // namespace remesh::worker::kernels
