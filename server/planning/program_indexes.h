// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "planner/plan/program_index.h"
#include "server/cache/cached_plan.h"

namespace remesh::server {

// The indices of the plans whose programs were asked for last: all hosts of a move ask for theirs
// at about the same time. Keeps no plan. Thread-safe.
class ProgramIndexes {
 public:
  static constexpr size_t kPlansMax = 4;

  // Makes the index when it is first asked for. The others who ask for the same plan wait for it.
  std::shared_ptr<const planner::ProgramIndex> Of(const std::shared_ptr<const CachedPlan>& plan);

 private:
  struct Entry {
    std::weak_ptr<const CachedPlan> plan;
    absl::Mutex mutex;
    std::shared_ptr<const planner::ProgramIndex> index ABSL_GUARDED_BY(mutex);  // null: not made
  };
  std::shared_ptr<Entry> EntryOf(const std::shared_ptr<const CachedPlan>& plan);

  absl::Mutex mutex_;
  std::deque<std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace remesh::server
