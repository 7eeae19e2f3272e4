// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_watchers.h"

#include <utility>

#include "absl/synchronization/notification.h"

namespace remesh::server {

bool WatchRoom::Take(int64_t events) {
  int64_t left = left_;
  while (left >= events) {
    if (left_.compare_exchange_weak(left, left - events)) return true;
  }
  return false;
}

uint64_t PlanWatchers::Add(std::shared_ptr<PlanWatcher> watcher) {
  const uint64_t id = next_++;
  ++count_;
  strand_.Post([this, id, watcher = std::move(watcher)] {
    if (!ended_.ok()) {
      --count_;
      return watcher->End(ended_);
    }
    watchers_[id] = watcher;
  });
  return id;
}

void PlanWatchers::Remove(uint64_t id) {
  strand_.Post([this, id] { count_ -= static_cast<int64_t>(watchers_.erase(id)); });
}

void PlanWatchers::Publish(v1::WatchPlansResponse event) {
  auto numbered = std::make_shared<const PlanEvent>(
      PlanEvent{.number = ++published_, .told = std::move(event)});
  strand_.Post([this, event = std::move(numbered)] {
    for (const auto& [id, watcher] : watchers_) watcher->Offer(event);
  });
}

void PlanWatchers::EndAll(const absl::Status& status) {
  absl::Notification done;
  const bool posted = strand_.Post([this, &done, status] {
    ended_ = status;
    for (const auto& [id, watcher] : std::exchange(watchers_, {})) {
      --count_;
      watcher->End(status);
    }
    done.Notify();
  });
  if (posted) done.WaitForNotification();
}

}  // namespace remesh::server
