// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "planner/canonical/canonical.h"
#include "server/cache/cached_plan.h"

namespace remesh::server {

// Heap memory that values hold, including the allocator's overhead for each block: the amount that
// a cache with a limit must count. Layouts and device lists that several arrays share count once.
int64_t HeldBytes(const planner::ReshardRequest& request);
int64_t HeldBytes(const CachedPlan& cached);  // including the value itself
int64_t HeldBytes(const planner::Binding& binding);

}  // namespace remesh::server
