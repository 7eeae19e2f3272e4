// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <list>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "server/cache/plan_watchers.h"

namespace remesh::server {

// The newest event of each plan, in the order of arrival. Shares events and copies none. A value
// with no lock.
class NewestPlanEvents {
 public:
  // Replaces an earlier event of the same plan.
  void Put(const PlanEventPtr& event);
  // Idempotent.
  void Erase(const std::string& name);
  // REQUIRES: !empty().
  PlanEventPtr PopOldest();
  void Clear();

  bool Has(absl::string_view name) const { return by_name_.contains(name); }
  bool empty() const { return events_.empty(); }
  size_t size() const { return events_.size(); }
  const std::list<PlanEventPtr>& events() const { return events_; }  // oldest first

 private:
  std::list<PlanEventPtr> events_;
  // By name; the keys point into the events.
  absl::flat_hash_map<absl::string_view, std::list<PlanEventPtr>::iterator> by_name_;
};

}  // namespace remesh::server
