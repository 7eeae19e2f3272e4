// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_list.h"

#include <algorithm>

#include "server/cache/plan_filter.h"

namespace remesh::server {
namespace {

constexpr size_t kScannedMax = 20'000;  // plans looked at for one page

v1::Plan EntryOf(const PlanCache::Placed& placed, v1::PlanView view) {
  return std::visit([view](const auto& plan) { return ToEntry(plan, view); }, placed.plan);
}

}  // namespace

PlanPage PageOfPlans(PlanCache& cache, size_t size, PlanCache::Place after,
                     const v1::PlanFilter& filter, v1::PlanView view, size_t max_bytes) {
  PlanPage page;
  const size_t step = std::max<size_t>(size, 64);
  size_t bytes = 0;
  bool more = true;
  for (size_t scanned = 0; more && scanned < kScannedMax; scanned += step) {
    const std::vector<PlanCache::Placed> found = cache.After(after, step, more);
    for (size_t i = 0; i < found.size(); ++i) {
      after = found[i].place;
      if (!Matches(filter, EntryOf(found[i], v1::BASIC))) continue;
      page.plans.push_back(EntryOf(found[i], view));
      bytes += page.plans.back().ByteSizeLong();
      if (page.plans.size() < size && bytes < max_bytes) continue;
      if (more || i + 1 < found.size()) page.next = after;
      return page;
    }
  }
  if (more) page.next = after;
  return page;
}

}  // namespace remesh::server
