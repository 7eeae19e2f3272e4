// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_watchers.h"

#include <utility>

#include "absl/synchronization/notification.h"

namespace remesh::server {

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
  strand_.Post([this, event = std::make_shared<const v1::WatchPlansResponse>(std::move(event))] {
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
