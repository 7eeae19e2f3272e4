// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/values/request.h"

namespace remesh::server {

// The size of a question, quick to compute: the number of pairs of a source box and a target box,
// over all distinct pairs of shardings. The cost of planning rises with it, but not by a fixed law:
// 60 random layouts over 512 devices have 4 million pairs, and so has an all-to-all over 2,048.
int64_t PairsOfBoxes(const planner::ReshardRequest& request);

}  // namespace remesh::server
