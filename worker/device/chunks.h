// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planner/values/packing.h"

namespace remesh::worker {

// The units that plans and hosts share.
using planner::ChunksOf;
using planner::kChunkBits;
using planner::kChunkBytes;
using planner::kDigestBytes;
using planner::kPartAlignment;
using planner::PartBytes;

}  // namespace remesh::worker
