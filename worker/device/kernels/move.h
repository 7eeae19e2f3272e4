// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/device/kernels/chunk_at.h"
#include "worker/device/kernels/lanes.h"
#include "worker/device/kernels/memory.h"
#include "worker/device/kernels/piece_place.h"
#include "worker/device/kernels/unit_rows.h"

// Moves bits between the pieces of a tape and one packed chunk. Where a unit's bits need it, memory
// is read in whole words of 4 bytes; the other bits of such words are not changed.
namespace remesh::worker::kernels {

enum class MoveKind { kGather, kScatter };  // pieces -> packed, packed -> pieces

// A chunk, its packed bits, and the place where they currently come from or go to. It is in
// memory that a warp shares.
struct alignas(16) Stage {
  uint64_t words[kChunkBits / 64];
  ChunkPlace chunk;
  PiecePlace place;
  UnitRows rows[2];  // of a whole chunk's source and target

  REMESH_HD unsigned char* bytes() { return reinterpret_cast<unsigned char*>(words); }
};

// Moves `units` units of T; the first is at `place` and at `packed`.
template <MoveKind kKind, typename T, typename Lanes>
REMESH_HD void MoveUnits(const PiecePlace& place, unsigned char* packed, uint32_t units) {
  constexpr uint32_t kBatch = sizeof(T) == 16 ? 8 : 4;  // loads in flight before the first store
  const uint64_t run_bits = static_cast<uint64_t>(place.run_bits());
  const uint64_t within = static_cast<uint64_t>(place.within());
  unsigned char* const data = place.data();
  const int64_t first_bit = place.BitOfRun(0);
  auto address = [&](uint32_t unit) {
    const uint64_t bit = within + unit * 8 * sizeof(T);
    if (bit < run_bits) return data + (first_bit + static_cast<int64_t>(bit)) / 8;
    const uint64_t run = SmallQuotient(bit, run_bits);
    return data + (place.BitOfRun(run) + static_cast<int64_t>(bit - run * run_bits)) / 8;
  };
  Lanes::ForEach([&](int lane) {
    for (uint32_t first = static_cast<uint32_t>(lane); first < units; first += kBatch * kLanes) {
      T values[kBatch];
      unsigned char* at[kBatch];
      REMESH_UNROLL
      for (uint32_t i = 0; i < kBatch; ++i) {
        const uint32_t unit = first + i * kLanes;
        if (unit >= units) continue;
        at[i] = address(unit);
        values[i] = Load<T>(kKind == MoveKind::kGather ? at[i] : packed + unit * sizeof(T));
      }
      REMESH_UNROLL
      for (uint32_t i = 0; i < kBatch; ++i) {
        const uint32_t unit = first + i * kLanes;
        if (unit >= units) continue;
        Store<T>(kKind == MoveKind::kGather ? packed + unit * sizeof(T) : at[i], values[i]);
      }
    }
  });
}

// Loads `count` <= 32 bits at `bit`, an address in bits.
REMESH_HD inline uint32_t LoadBitsAt(uint64_t bit, int count) {
  const uint32_t* word = reinterpret_cast<const uint32_t*>(bit / 32 * 4);
  const int shift = static_cast<int>(bit % 32);
  uint32_t value = Load<uint32_t>(word) >> shift;
  if (shift + count > 32) value |= Load<uint32_t>(word + 1) << (32 - shift);
  return count == 32 ? value : value & ((1u << count) - 1);
}

// Moves `bits` bits from `from` to `to`, both addresses in bits, but only the bits that lie in word
// number `index` of the target.
REMESH_HD inline void MoveWord(uint64_t from, uint64_t to, int64_t bits, uint32_t index) {
  const uint64_t word = to / 32 + index;
  const uint64_t lo = to > word * 32 ? to : word * 32;
  const uint64_t end = to + static_cast<uint64_t>(bits);
  const uint64_t hi = end < word * 32 + 32 ? end : word * 32 + 32;
  if (lo >= hi) return;
  const int count = static_cast<int>(hi - lo), shift = static_cast<int>(lo - word * 32);
  const uint32_t value = LoadBitsAt(from + (lo - to), count) << shift;
  uint32_t* at = reinterpret_cast<uint32_t*>(word * 4);
  if (count == 32) {
    Store(at, value);
  } else {
    // No one else writes these bits, so they still have the value read here.
    FlipBits(at, (Load<uint32_t>(at) ^ value) & (((1u << count) - 1) << shift));
  }
}

// Moves bits of any alignment: each lane writes whole words, or parts of words, of the written
// side.
template <MoveKind kKind, typename Lanes>
REMESH_HD void MoveBits(const PiecePlace& place, uint64_t packed, int64_t bits) {
  const int64_t run_bits = place.run_bits(), within = place.within();
  const uint32_t words = static_cast<uint32_t>((run_bits < bits ? run_bits : bits) / 32 + 2);
  const uint64_t last_run =
      SmallQuotient(static_cast<uint64_t>(within + bits - 1), static_cast<uint64_t>(run_bits));
  const uint32_t units = (static_cast<uint32_t>(last_run) + 1) * words;
  Lanes::ForEach([&](int lane) {
    for (uint32_t unit = static_cast<uint32_t>(lane); unit < units; unit += kLanes) {
      const int64_t run = unit / words;
      const int64_t start = run * run_bits - within;  // relative to the position
      const int64_t lo = start > 0 ? start : 0;
      const int64_t hi = start + run_bits < bits ? start + run_bits : bits;
      const int64_t there = place.BitOfRun(static_cast<uint64_t>(run)) + lo - start;
      const uint64_t at =
          reinterpret_cast<uintptr_t>(place.data()) * 8 + static_cast<uint64_t>(there);
      const uint64_t here = packed + static_cast<uint64_t>(lo);
      const bool gather = kKind == MoveKind::kGather;
      MoveWord(gather ? at : here, gather ? here : at, hi - lo, unit % words);
    }
  });
}

// The widest unit of at most 16 bytes that fits `mask` and `bits`, in bits; 0: less than a byte.
REMESH_HD inline int UnitBits(uint64_t mask, int64_t bits) {
  int unit = 128;
  while (unit >= 8 && ((mask & static_cast<uint64_t>(unit - 1)) != 0 || unit > bits)) unit /= 2;
  return unit >= 8 ? unit : 0;
}

// Moves `bits` bits between one piece, from `offset` on, and the stage, from bit `packed_bit` on.
template <MoveKind kKind, typename Lanes>
REMESH_HD void MoveSegment(const PieceEntry& piece, int64_t offset, Stage& stage,
                           int64_t packed_bit, int64_t bits) {
  PiecePlace& place = stage.place;
  while (bits > 0) {
    Lanes::ForEach([&](int lane) {
      if (lane == 0) place.Set(piece, offset);
    });
    const int unit = UnitBits(place.AlignmentMask(bits) | static_cast<uint64_t>(packed_bit), bits);
    const uint32_t units = unit == 0 ? 0 : static_cast<uint32_t>(bits / unit);
    unsigned char* at = stage.bytes() + packed_bit / 8;
    switch (unit) {
      case 128:
        MoveUnits<kKind, Unit16, Lanes>(place, at, units);
        break;
      case 64:
        MoveUnits<kKind, uint64_t, Lanes>(place, at, units);
        break;
      case 32:
        MoveUnits<kKind, uint32_t, Lanes>(place, at, units);
        break;
      case 16:
        MoveUnits<kKind, uint16_t, Lanes>(place, at, units);
        break;
      case 8:
        MoveUnits<kKind, uint8_t, Lanes>(place, at, units);
        break;
      default:
        MoveBits<kKind, Lanes>(
            place,
            reinterpret_cast<uintptr_t>(stage.bytes()) * 8 + static_cast<uint64_t>(packed_bit),
            bits);
    }
    const int64_t moved = unit == 0 ? bits : static_cast<int64_t>(units) * unit;
    offset += moved;
    packed_bit += moved;
    bits -= moved;
  }
}

// Moves [lo, hi) of a tape, which begins in the first of `pieces`, to or from the stage, from bit 0
// on. Not inlined: its many paths would make the registers scarce that units need.
template <MoveKind kKind, typename Lanes>
REMESH_NO_INLINE REMESH_HD void MoveRange(const PieceEntry* pieces, int64_t lo, int64_t hi,
                                          Stage& stage) {
  for (int64_t at = lo; at < hi; ++pieces) {
    const int64_t end = pieces->end < hi ? pieces->end : hi;
    MoveSegment<kKind, Lanes>(*pieces, at - pieces->begin, stage, at - lo, end - at);
    at = end;
  }
}

}  // namespace remesh::worker::kernels
