// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "remesh/v1/plan.pb.h"
#include "server/cache/plan_cache.h"

namespace remesh::server {

struct PlanPage {
  std::vector<v1::Plan> plans;
  std::optional<PlanCache::Place> next;  // nullopt: this was the last page
};
inline constexpr size_t kPageBytes = size_t{1} << 20;

// Up to `size` plans of both tiers that pass `filter`, newest first, from after a place. A page
// ends with the plan that reaches `max_bytes`, and looks at a limited number of plans, so it may
// have fewer than `size` plans although more pages follow.
// REQUIRES: a valid filter.
PlanPage PageOfPlans(PlanCache& cache, size_t size, PlanCache::Place after,
                     const v1::PlanFilter& filter, v1::PlanView view,
                     size_t max_bytes = kPageBytes);

}  // namespace remesh::server
