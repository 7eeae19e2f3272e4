// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/device/kernels/lanes.h"
#include "worker/device/kernels/memory.h"
#include "worker/device/kernels/table.h"
#include "worker/device/kernels/xxh3.h"

namespace remesh::worker::kernels {

// A whole chunk's units of 16 bytes pass through a warp in groups of four blocks of 1 KiB. Lane l
// has every unit l + 32 t of the chunk, in the order of t: here those of one group.
inline constexpr int kGroupTurns = 8;
inline constexpr int kGroups = static_cast<int>(kChunkBits / 128 / kLanes / kGroupTurns);
struct LaneUnits {
  Unit16 of[kGroupTurns];
};
template <typename Lanes>
using UnitGroup = typename Lanes::template PerLane<LaneUnits>;

// XXH3 of a whole chunk, from registers. A unit is two words of a stripe, and 32 units are half of
// a block, so lane l has the accumulators 2k and 2k + 1, k = l % 4, of the stripes l / 4 and
// l / 4 + 8 of each block. The blocks' sums do not depend on each other, only their scrambles do.
// So a group's sums are reduced together: each exchange halves the number of sums that a lane has,
// until lane l has that of block l / 8 for accumulator 2k + l / 4 % 2. The running accumulators lie
// in the same order, once in each quarter of the warp.
template <typename Lanes>
class ChunkHash {
 public:
  REMESH_HD ChunkHash() {
    Lanes::ForEachAlone([&](int lane) {
      Keys& keys = keys_[lane];
      const int stripe = lane / 4;
      REMESH_UNROLL
      for (int odd = 0; odd < 2; ++odd) {
        const int accumulator = 2 * (lane % 4) + odd;
        keys.first[odd] = Secret(8 * (stripe + accumulator));
        keys.second[odd] = Secret(8 * (stripe + 8 + accumulator));
        keys.last[odd] = stripe == 7 ? Secret(121 + 8 * accumulator) : keys.second[odd];
      }
      sums_[lane] = Start(AccumulatorOf(lane));
      scramble_[lane] = Secret(128 + 8 * AccumulatorOf(lane));
    });
  }

  // Adds the next group; `last`: it is the last one, whose last block ends otherwise.
  REMESH_HD void Add(UnitGroup<Lanes>& units, bool last) {
    Sums even[kBlocks], odd[kBlocks];
    REMESH_UNROLL
    for (int block = 0; block < kBlocks; ++block) {
      AddUnits(units, block, last && block + 1 == kBlocks, even[block], odd[block]);
    }
    Sums sums = ReducedOverLanes(even, odd);
    REMESH_UNROLL
    for (int block = 0; block < kBlocks; ++block) {
      Sums added = Lanes::From(sums, [&](int lane) { return lane % 8 + 8 * block; });
      const bool end = last && block + 1 == kBlocks;
      Lanes::ForEachAlone([&](int lane) {
        uint64_t& sum = sums_[lane];
        sum += added[lane];
        if (!end) sum = (sum ^ sum >> 47 ^ scramble_[lane]) * kPrime32A;
      });
    }
  }

  // The digest, after all groups; every lane gets it.
  REMESH_HD uint64_t Finish() {
    Sums ordered = Lanes::From(sums_, [](int lane) { return lane % 8 / 2 + lane % 2 * 4; });
    return MergedSums<Lanes>(ordered, static_cast<int>(kChunkBits / 8));
  }

 private:
  using Sums = typename Lanes::template PerLane<uint64_t>;
  static constexpr int kBlocks = 4;  // of a group
  static_assert(kBlocks * 1024 == kGroupTurns * kLanes * sizeof(Unit16));

  struct Keys {  // of the even and of the odd accumulator
    uint64_t first[2], second[2], last[2];
  };

  REMESH_HD static int AccumulatorOf(int lane) { return 2 * (lane % 4) + lane / 4 % 2; }

  REMESH_HD static uint64_t Product(uint64_t keyed) {
    return (keyed & 0xffffffffu) * (keyed >> 32);
  }

  // A word's product goes to its own accumulator and the word itself to the neighbour's. `last`:
  // the chunk's last stripe has a key of its own.
  REMESH_HD void AddUnits(UnitGroup<Lanes>& units, int block, bool last, Sums& even, Sums& odd) {
    Lanes::ForEachAlone([&](int lane) {
      const Keys& keys = keys_[lane];
      const uint64_t* later = last ? keys.last : keys.second;
      const Unit16 first = units[lane].of[2 * block], second = units[lane].of[2 * block + 1];
      even[lane] = Product(first.low ^ keys.first[0]) + first.high;
      even[lane] += Product(second.low ^ later[0]) + second.high;
      odd[lane] = Product(first.high ^ keys.first[1]) + first.low;
      odd[lane] += Product(second.high ^ later[1]) + second.low;
    });
  }

  REMESH_HD static Sums ReducedOverLanes(Sums (&even)[kBlocks], Sums (&odd)[kBlocks]) {
    Sums blocks[kBlocks];
    REMESH_UNROLL
    for (int block = 0; block < kBlocks; ++block)
      blocks[block] = Halved(even[block], odd[block], 4);
    Sums early = Halved(blocks[0], blocks[1], 8), late = Halved(blocks[2], blocks[3], 8);
    return Halved(early, late, 16);
  }

  // Sums over pairs of lanes whose numbers differ by the bit `mask`: those of `clear` where the bit
  // is not set, those of `set` where it is.
  REMESH_HD static Sums Halved(Sums& clear, Sums& set, int mask) {
    Sums kept, given;
    Lanes::ForEachAlone([&](int lane) {
      const bool is_set = (lane & mask) != 0;
      kept[lane] = is_set ? set[lane] : clear[lane];
      given[lane] = is_set ? clear[lane] : set[lane];
    });
    Sums taken = Lanes::ExchangedAcross(given, mask);
    Lanes::ForEachAlone([&](int lane) { kept[lane] += taken[lane]; });
    return kept;
  }

  typename Lanes::template PerLane<Keys> keys_;
  Sums sums_, scramble_;
};

}  // namespace remesh::worker::kernels
