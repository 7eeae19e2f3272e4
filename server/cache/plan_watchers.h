// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/strand.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::server {

// Shared by all watchers that have still to send it.
using PlanEventPtr = std::shared_ptr<const v1::WatchPlansResponse>;

// A watcher of plans. Called on a strand of PlanWatchers; must not block.
class PlanWatcher {
 public:
  virtual ~PlanWatcher() = default;
  // More events have been published.
  virtual void OnEvent() = 0;
  virtual void End(const absl::Status& status) = 0;
};

// The newest events of plans, and those who read them. Each watcher reads at its own pace, by the
// number of the event that it needs next, so a slow one holds no memory of its own. Thread-safe.
// May be called under a lock, because watchers are called later.
class PlanWatchers {
 public:
  static constexpr size_t kKept = 16'384;

  // Keeps the newest `kept` events while there are watchers.
  explicit PlanWatchers(size_t kept = kKept) : kept_(kept) {}

  struct Watch {
    uint64_t id = 0;
    uint64_t next_event = 0;  // number of the first event after the watch began
  };
  Watch Add(std::shared_ptr<PlanWatcher> watcher);
  // The watcher may still be called for a while. Idempotent.
  void Remove(uint64_t id);
  bool any() const { return count_ > 0; }
  int64_t count() const { return count_; }

  void Publish(v1::WatchPlansResponse event);
  // The event of this number, or null if it has not been published yet. RESOURCE_EXHAUSTED
  // (WATCH_TOO_SLOW) once it is not kept any more.
  absl::StatusOr<PlanEventPtr> Event(uint64_t number) const;

  // Ends all watchers, and ends later ones at once. Returns when all have been called.
  void EndAll(const absl::Status& status);

 private:
  // Drops the events if no watcher is left to read them.
  void DropUnread();

  const size_t kept_;
  mutable absl::Mutex mutex_;
  std::deque<PlanEventPtr> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_event_ ABSL_GUARDED_BY(mutex_) = 0;  // number after the last of events_
  std::atomic<int64_t> count_{0};
  std::atomic<uint64_t> next_id_{1};
  // Used only by tasks of the strand.
  std::map<uint64_t, std::shared_ptr<PlanWatcher>> watchers_;
  absl::Status ended_;
  Strand strand_;  // last: it uses all of the above
};

}  // namespace remesh::server
