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
  std::optional<PlanCache::Place> next;  // none: this was the last
};
// Up to `size` plans of both tiers that `filter` wants, newest first, from after a place on. Looks
// at so many plans at most, so that a page may have fewer and another come. REQUIRES: a valid
// filter.
PlanPage PageOfPlans(PlanCache& cache, size_t size, PlanCache::Place after,
                     const v1::PlanFilter& filter, v1::PlanView view);

}  // namespace remesh::server
