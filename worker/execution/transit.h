// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "worker/execution/moves.h"

namespace remesh::worker {

// The layout of a slice with its digests behind it in one piece of memory.
int64_t DigestOffset(const Slice& slice);
inline int64_t BytesWithDigests(const Slice& slice) {
  return DigestOffset(slice) + slice.chunks * kDigestBytes;
}

// The places of slices on their way in the areas of this host's devices
// (planner/schedule/transit.h).
struct TransitLayout {
  std::vector<int64_t> offsets;  // of each slice, in the area of the device that is here; -1: none
  std::vector<int64_t> bytes;    // of the areas, by local device

  int64_t all_bytes() const;
};

// Lays out the messages that travel whole, with their digests.
TransitLayout LayOutTransit(const MoveList& list);
// Lays out the slices of other messages that must be packed, without digests. See DirectRuns().
TransitLayout LayOutPacked(const MoveList& list, bool gathers, int64_t run_bytes);

}  // namespace remesh::worker
