// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/canonical/canonical.h"
#include "server/cache/cached_plan.h"

namespace remesh::server {

// Heap memory that values hold, with what the allocator adds to each block: what a cache that keeps
// to a limit has to count. Layouts and device lists that several arrays share count once.
int64_t HeldBytes(const planner::ReshardRequest& request);
int64_t HeldBytes(const CachedPlan& cached);  // the value itself, too
int64_t HeldBytes(const planner::Binding& binding);

}  // namespace remesh::server
