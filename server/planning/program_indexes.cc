// SPDX-License-Identifier: Apache-2.0
#include "server/planning/program_indexes.h"

#include <algorithm>
#include <utility>

namespace remesh::server {

std::shared_ptr<const planner::ProgramIndex> ProgramIndexes::Of(
    const std::shared_ptr<const CachedPlan>& plan) {
  const std::shared_ptr<Entry> entry = EntryOf(plan);
  absl::MutexLock lock(&entry->mutex);
  if (entry->index == nullptr) {
    entry->index = std::make_shared<const planner::ProgramIndex>(plan->plan);
  }
  return entry->index;
}

// Forgets plans that are gone, and the oldest one if there are too many.
std::shared_ptr<ProgramIndexes::Entry> ProgramIndexes::EntryOf(
    const std::shared_ptr<const CachedPlan>& plan) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(entries_, [](const auto& entry) { return entry->plan.expired(); });
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry->plan.lock() == plan; });
  if (found != entries_.end()) return *found;
  if (entries_.size() == kPlansMax) entries_.pop_front();
  auto entry = std::make_shared<Entry>();
  entry->plan = plan;
  entries_.push_back(entry);
  return entry;
}

}  // namespace remesh::server
