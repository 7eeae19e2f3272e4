// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_list.h"

#include <algorithm>
#include <utility>

#include "server/cache/plan_filter.h"

namespace remesh::server {
namespace {

constexpr size_t kScannedMax = 20'000;  // plans looked at for one page

}  // namespace

PlanPage PageOfPlans(PlanCache& cache, size_t size, PlanCache::Place after,
                     const v1::PlanFilter& filter, v1::PlanView view) {
  PlanPage page;
  const size_t step = std::max<size_t>(size, 64);
  bool more = true;
  for (size_t scanned = 0; more && scanned < kScannedMax; scanned += step) {
    std::vector<PlanCache::Placed> found = cache.After(after, step, view, more);
    for (size_t i = 0; i < found.size(); ++i) {
      after = found[i].place;
      if (!Matches(filter, found[i].plan)) continue;
      page.plans.push_back(std::move(found[i].plan));
      if (page.plans.size() < size) continue;
      if (more || i + 1 < found.size()) page.next = after;
      return page;
    }
  }
  if (more) page.next = after;
  return page;
}

}  // namespace remesh::server
