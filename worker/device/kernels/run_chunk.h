// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/device/kernels/chunk_at.h"
#include "worker/device/kernels/chunk_units.h"
#include "worker/device/kernels/move.h"
#include "worker/device/kernels/table.h"
#include "worker/device/kernels/unit_rows.h"
#include "worker/device/kernels/xxh3.h"

namespace remesh::worker::kernels {

// Writes zeros after the last bit up to a multiple of 16 bytes: digests cover whole bytes, and
// packed bits travel in units of 16 bytes.
template <typename Lanes>
REMESH_HD void ClearTail(Stage& stage, int64_t bits) {
  if (bits % 128 == 0) return;
  Lanes::ForEach([&](int lane) {
    if (lane >= 16) return;
    const int64_t byte = bits / 128 * 16 + lane;
    unsigned char* at = stage.bytes() + byte;
    const int64_t kept = bits - byte * 8;
    if (kept <= 0) {
      Store<uint8_t>(at, 0);
    } else if (kept < 8) {
      Store<uint8_t>(at, static_cast<uint8_t>(Load<uint8_t>(at) & ((1u << kept) - 1)));
    }
  });
}

// Writes a chunk's digest to the table or compares it; one lane does this.
template <typename Lanes>
REMESH_HD void UseDigest(const TableView& table, int64_t index, DigestUse use, uint64_t digest) {
  Lanes::ForEach([&](int lane) {
    if (lane != 0) return;
    if (use == DigestUse::kWrite) {
      table.digests[index] = digest;
    } else if (table.digests[index] != digest) {
      LowerTo(table.first_wrong, index);
    }
  });
}

// Moves a whole chunk. Its bits pass through the stage only if its source or its target does not
// lie in rows of units.
template <typename Lanes>
REMESH_HD void RunWholeChunk(const TableView& table, int64_t index, Stage& stage) {
  const ChunkPlace& chunk = stage.chunk;
  Lanes::ForEach([&](int lane) {
    if (lane >= 2) return;
    const PieceEntry* piece = lane == 0 ? chunk.source : chunk.target;
    stage.rows[lane] = piece == nullptr ? UnitRows() : RowsOfChunk(*piece, chunk.lo);
  });
  UnitRows source = stage.rows[0], target = stage.rows[1];
  const bool gathered = source.first == nullptr;
  const bool scattered = chunk.target != nullptr && target.first == nullptr;
  if (gathered) {
    MoveRange<MoveKind::kGather, Lanes>(chunk.source, chunk.lo, chunk.hi, stage);
    source = OneRow(stage.bytes());
  } else if (scattered) {
    target = OneRow(stage.bytes());
  }
  const bool hashed = chunk.use != DigestUse::kNone;
  if (hashed || target.first != nullptr) {
    const uint64_t digest = MoveChunkUnits<Lanes>(source, target, hashed);
    if (hashed) UseDigest<Lanes>(table, index, chunk.use, digest);
  }
  if (scattered) MoveRange<MoveKind::kScatter, Lanes>(chunk.target, chunk.lo, chunk.hi, stage);
}

// Moves a chunk that is shorter than others, the last of its part, through the stage.
template <typename Lanes>
REMESH_HD void RunShortChunk(const TableView& table, int64_t index, Stage& stage) {
  const ChunkPlace& chunk = stage.chunk;
  const int64_t bits = chunk.hi - chunk.lo;
  MoveRange<MoveKind::kGather, Lanes>(chunk.source, chunk.lo, chunk.hi, stage);
  ClearTail<Lanes>(stage, bits);
  if (chunk.use != DigestUse::kNone) {
    UseDigest<Lanes>(table, index, chunk.use,
                     HashOf<Lanes>(stage.words, static_cast<int>((bits + 7) / 8)));
  }
  if (chunk.target != nullptr) {
    MoveRange<MoveKind::kScatter, Lanes>(chunk.target, chunk.lo, chunk.target_hi, stage);
  }
}

// Moves one chunk. See move.h for the words around a piece's own bits that it reads.
template <typename Lanes>
REMESH_HD void RunChunk(const TableView& table, int64_t index, Stage& stage) {
  Lanes::ForEach([&](int lane) {
    if (lane == 0) stage.chunk = ChunkAt(table, index);
  });
  if (stage.chunk.hi - stage.chunk.lo == kChunkBits) {
    RunWholeChunk<Lanes>(table, index, stage);
  } else {
    RunShortChunk<Lanes>(table, index, stage);
  }
}

}  // namespace remesh::worker::kernels
