// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/values/request.h"

namespace remesh::server {

// How large a question is, found in a moment: the pairs of a source's and a target's box, over all
// different pairs of shardings. What planning takes rises with it, but no law says how: 60 random
// layouts over 512 devices have 4 million pairs, and so has an all-to-all over 2,048.
int64_t PairsOfBoxes(const planner::ReshardRequest& request);

}  // namespace remesh::server
