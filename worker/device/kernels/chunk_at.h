// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/device/kernels/lanes.h"
#include "worker/device/kernels/table.h"

namespace remesh::worker::kernels {

// One chunk, which one warp moves.
struct ChunkPlace {
  int64_t lo, hi;            // on the tape
  int64_t target_hi;         // hi, or after it: see PartEntry
  const PieceEntry* source;  // the piece that holds `lo`; those after it hold the rest
  const PieceEntry* target;  // likewise; null: the chunk is only read
  DigestUse use;
};

// Finds the part of a chunk by binary search: the parts have rising first_chunk.
REMESH_HD inline const PartEntry* PartOfChunk(const TableView& table, int64_t index) {
  const PartEntry* first = table.parts;
  for (int32_t count = table.part_count; count > 1;) {
    const int32_t half = count / 2;
    const bool behind = first[half].first_chunk <= index;
    first += behind ? half : 0;
    count = behind ? count - half : half;
  }
  return first;
}

// Finds the piece that holds `position` among `count` adjacent pieces.
REMESH_HD inline const PieceEntry* PieceAt(const PieceEntry* first, int32_t count,
                                           int64_t position) {
  while (count > 1) {
    const int32_t half = count / 2;
    const bool behind = first[half].begin <= position;
    first += behind ? half : 0;
    count = behind ? count - half : half;
  }
  return first;
}

// Finds chunk `index` of the table. REQUIRES: the table has that chunk.
REMESH_HD inline ChunkPlace ChunkAt(const TableView& table, int64_t index) {
  const PartEntry& part = *PartOfChunk(table, index);
  ChunkPlace chunk;
  chunk.lo = part.lo + (index - part.first_chunk) * kChunkBits;
  const bool last = part.hi - chunk.lo <= kChunkBits;
  chunk.hi = last ? part.hi : chunk.lo + kChunkBits;
  chunk.target_hi = last ? part.target_hi : chunk.hi;
  chunk.source = PieceAt(table.pieces + part.source, part.source_count, chunk.lo);
  chunk.target =
      part.target < 0 ? nullptr : PieceAt(table.pieces + part.target, part.target_count, chunk.lo);
  chunk.use = part.use;
  return chunk;
}

}  // namespace remesh::worker::kernels
