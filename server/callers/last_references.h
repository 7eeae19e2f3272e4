// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace remesh::server {

// One more reference to each of some large values. So none of them is freed where its last user
// drops it, such as on the strand, which others wait for while hundreds of thousands of shards are
// freed, but by DropUnused(). Thread-safe.
class LastReferences {
 public:
  // However often a value is added, one reference is held.
  void Add(std::shared_ptr<const void> value) {
    absl::MutexLock lock(&mutex_);
    values_.insert(std::move(value));
  }

  // Frees the values that have no other reference. To be called from time to time, on a thread that
  // no one waits for.
  void DropUnused() {
    std::vector<Values::node_type> unused;  // destroyed without the lock
    {
      absl::MutexLock lock(&mutex_);
      for (auto value = values_.begin(); value != values_.end();) {
        const auto next = std::next(value);
        if (value->use_count() == 1) unused.push_back(values_.extract(value));
        value = next;
      }
    }
  }

 private:
  using Values = std::set<std::shared_ptr<const void>>;

  absl::Mutex mutex_;
  Values values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::server
