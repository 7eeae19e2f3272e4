// SPDX-License-Identifier: Apache-2.0
#include "server/cache/newest_plan_events.h"

#include <iterator>
#include <utility>

namespace remesh::server {

void NewestPlanEvents::Put(const PlanEventPtr& event) {
  Erase(event->told.plan().name());
  events_.push_back(event);
  by_name_[event->told.plan().name()] = std::prev(events_.end());
}

void NewestPlanEvents::Erase(const std::string& name) {
  const auto known = by_name_.find(name);
  if (known == by_name_.end()) return;
  const auto at = known->second;
  by_name_.erase(known);  // first: its key points into the event
  events_.erase(at);
}

PlanEventPtr NewestPlanEvents::PopOldest() {
  PlanEventPtr oldest = events_.front();
  Erase(oldest->told.plan().name());
  if (events_.empty()) Clear();
  return oldest;
}

void NewestPlanEvents::Clear() {
  by_name_ = {};  // also frees its memory
  events_.clear();
}

}  // namespace remesh::server
