// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "worker/execution/moves.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// If the runs of a slice are shorter than this on average, packing costs less than passing each run
// to the kernel.
inline constexpr int64_t kDirectRunBytes = 4096;

// The runs of this host's shards and staging that hold a slice's bytes, in the order in which they
// travel. Empty if the slice must be packed: if it is not in the host's memory, if a piece is not
// whole bytes, if there are gaps between the pieces, or if there are more runs than one per
// `run_bytes` (without `gathers`: more than one run).
Runs DirectRuns(const MoveList& list, const Slice& slice, bool gathers,
                int64_t run_bytes = kDirectRunBytes);

}  // namespace remesh::worker
