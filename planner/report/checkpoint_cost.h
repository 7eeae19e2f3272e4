// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/canonical/canonical.h"

namespace remesh::planner {

// The bytes that a round trip through a checkpoint would move: every element of the source is
// written once, and every host reads once what its devices need of the target.
//
//   W(h) = sum over source tiles held by h of bytes(tile) / hosts that hold it    (replicas share
//          the writing, as the best writers have it)
//   R(h) = sum over target tiles needed on h of bytes(tile)                       (read once, then
//          copied inside the host)
//   seconds = (max over h of W(h) + max over h of R(h)) / rate: all is written before any is read.
//
// Tiles that overlap in part (explicit boxes) count in full. Lost devices write and read nothing.
struct CheckpointCost {
  int64_t written_bytes = 0;     // sum of W
  int64_t read_bytes = 0;        // sum of R
  int64_t bottleneck_bytes = 0;  // max W + max R
  double seconds = 0;
};

// `bytes_per_second` of one host to and from storage. REQUIRES: finite and > 0.
CheckpointCost CostOfCheckpoint(const CanonicalRequest& request, double bytes_per_second);

}  // namespace remesh::planner
