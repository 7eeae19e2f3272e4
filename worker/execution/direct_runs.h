// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/execution/moves.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// Runs shorter than this, on average, are cheaper packed than told to the kernel one by one.
inline constexpr int64_t kDirectRunBytes = 4096;

// Where a slice's bytes lie in this host's shards and staging, in the order in which they travel;
// empty where they have to be packed: where they are not whole bytes, where something travels
// between its pieces, and where they lie in more runs than one on every `run_bytes`, or than one at
// all without `gathers`.
Runs DirectRuns(const MoveList& list, const Slice& slice, bool gathers,
                int64_t run_bytes = kDirectRunBytes);

}  // namespace remesh::worker
