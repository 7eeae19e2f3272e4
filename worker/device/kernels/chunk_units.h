// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/device/kernels/lanes.h"
#include "worker/device/kernels/memory.h"
#include "worker/device/kernels/unit_rows.h"
#include "worker/device/kernels/xxh3_chunk.h"

// Moves a whole chunk through registers.
namespace remesh::worker::kernels {

// Calls step(turn, unit) for a lane's units of a group.
template <typename Step>
REMESH_HD void ForEachTurn(int group, int lane, Step step) {
  REMESH_UNROLL
  for (int turn = 0; turn < kGroupTurns; ++turn) {
    step(turn, static_cast<uint32_t>((group * kGroupTurns + turn) * kLanes + lane));
  }
}

template <typename Lanes>
REMESH_HD void LoadGroup(const UnitRows& source, int group, UnitGroup<Lanes>& units) {
  Lanes::ForEachAlone([&](int lane) {
    ForEachTurn(group, lane, [&](int turn, uint32_t unit) {
      units[lane].of[turn] = Load<Unit16>(source.At(unit));
    });
  });
}

template <typename Lanes>
REMESH_HD void StoreGroup(const UnitRows& target, int group, UnitGroup<Lanes>& units) {
  Lanes::ForEach([&](int lane) {
    ForEachTurn(group, lane, [&](int turn, uint32_t unit) {
      Store<Unit16>(target.At(unit), units[lane].of[turn]);
    });
  });
}

// Moves the units of a whole chunk and returns their digest if it is `hashed`. Without a target
// they are only read. The next group is on its way from memory while one is stored and hashed.
template <typename Lanes>
REMESH_HD uint64_t MoveChunkUnits(const UnitRows& source, const UnitRows& target, bool hashed) {
  ChunkHash<Lanes> hash;
  UnitGroup<Lanes> now, next;
  LoadGroup<Lanes>(source, 0, now);
  REMESH_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    const bool last = group + 1 == kGroups;
    if (!last) LoadGroup<Lanes>(source, group + 1, next);
    if (target.first != nullptr) StoreGroup<Lanes>(target, group, now);
    if (hashed) hash.Add(now, last);
    now = next;
  }
  return hashed ? hash.Finish() : 0;
}

}  // namespace remesh::worker::kernels
