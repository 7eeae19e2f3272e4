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
// Up to `size` plans of both tiers that pass `filter`, newest first, from after a place. Looks at a
// limited number of plans, so a page may have fewer than `size` plans although more pages follow.
// REQUIRES: a valid filter.
PlanPage PageOfPlans(PlanCache& cache, size_t size, PlanCache::Place after,
                     const v1::PlanFilter& filter, v1::PlanView view);

}  // namespace remesh::server
