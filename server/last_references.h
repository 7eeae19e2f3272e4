// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace remesh::server {

// One more reference to each of some large values. So none of them is freed where its last user
// drops it, such as on the strand, which others wait for while hundreds of thousands of shards are
// freed, but by DropUnused(). Thread-safe.
class LastReferences {
 public:
  // REQUIRES: the value was not added before: it would seem to be in use for ever.
  void Add(std::shared_ptr<const void> value) {
    absl::MutexLock lock(&mutex_);
    values_.push_back(std::move(value));
  }

  // Frees the values that have no other reference. To be called from time to time, on a thread that
  // no one waits for.
  void DropUnused() {
    std::vector<std::shared_ptr<const void>> unused;  // destroyed without the lock
    {
      absl::MutexLock lock(&mutex_);
      std::erase_if(values_, [&](std::shared_ptr<const void>& value) {
        if (value.use_count() > 1) return false;
        unused.push_back(std::move(value));
        return true;
      });
    }
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<const void>> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::server
