// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "worker/execution/moves.h"

namespace remesh::worker {

// A slice whose digests travel behind it, in one piece of memory.
int64_t DigestOffset(const Slice& slice);
inline int64_t BytesWithDigests(const Slice& slice) {
  return DigestOffset(slice) + slice.chunks * static_cast<int64_t>(sizeof(uint64_t));
}

// Where slices lie on their way over a windowed link: each device has an area of two halves, for
// windows in turn. A window starts when all of the one before the last is done, so that nothing is
// ever allocated, and nothing is overwritten that anybody needs.
struct TransitLayout {
  std::vector<int64_t> offsets;  // of each slice, in the area of the device that is here
  std::vector<int64_t> bytes;    // of the areas, by local device
};

TransitLayout LayOutTransit(const MoveList& list);

}  // namespace remesh::worker
