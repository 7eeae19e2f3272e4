// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace remesh::worker::kernels {

inline constexpr int kLoopsMax = 5;

// Where one range of a tape is in memory: runs of adjacent bits, at (i0, i1, ..) of the loops at
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
  Loop loops[kLoopsMax];  // innermost first; unused loops have count 1
};

enum class DigestUse : int32_t { kNone, kWrite, kCompare };

// The unit of work and of digests: see worker/device/chunks.h.
inline constexpr int64_t kChunkBits = int64_t{128} << 10;

// Consecutive chunks of one stretch, from `lo` on; the last may be short. A table names parts, not
// chunks, so that the bytes sent to a device do not grow with the bytes moved.
struct PartEntry {
  int64_t first_chunk;  // number of chunks of the parts before it
  int64_t lo, hi;       // on the tape
  int64_t target_hi;    // hi, or lo plus a multiple of 16 bytes if the target owns those
  int32_t source;       // index of its first piece, which holds `lo`
  int32_t source_count;
  int32_t target;  // likewise; -1: the part is only read
  int32_t target_count;
  DigestUse use;
};

// A table in memory that the device can read. Each part has at least one chunk. `digests` has a
// place for each chunk. `first_wrong` becomes the least index of a chunk whose digest differs, or
// stays.
struct TableView {
  const PieceEntry* pieces;
  const PartEntry* parts;
  int32_t part_count;
  uint64_t* digests;
  int64_t* first_wrong;
};

}  // namespace remesh::worker::kernels
