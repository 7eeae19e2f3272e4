// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_watchers.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"

namespace remesh::server {
namespace {

absl::Status TooSlow(size_t kept) {
  const std::string most = absl::StrCat(kept);
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("more than ", most,
                                " events of plans occurred since the last one that was read: "
                                "watch again, or poll ListPlans"),
                   {.reason = "WATCH_TOO_SLOW", .metadata = {{"events_max", most}}});
}

}  // namespace

PlanWatchers::Watch PlanWatchers::Add(std::shared_ptr<PlanWatcher> watcher) {
  Watch watch{.id = next_id_++};
  ++count_;
  {
    absl::MutexLock lock(&mutex_);
    watch.next_event = next_event_;
  }
  strand_.Post([this, id = watch.id, watcher = std::move(watcher)] {
    if (!ended_.ok()) {
      --count_;
      return watcher->End(ended_);
    }
    watchers_[id] = watcher;
    watcher->OnEvent();  // some may have been published since
  });
  return watch;
}

void PlanWatchers::Remove(uint64_t id) {
  strand_.Post([this, id] {
    count_ -= static_cast<int64_t>(watchers_.erase(id));
    DropUnread();
  });
}

void PlanWatchers::DropUnread() {
  absl::MutexLock lock(&mutex_);
  if (!any()) events_.clear();
}

void PlanWatchers::Publish(v1::WatchPlansResponse event) {
  auto shared = std::make_shared<const v1::WatchPlansResponse>(std::move(event));
  {
    absl::MutexLock lock(&mutex_);
    events_.push_back(std::move(shared));
    ++next_event_;
    if (events_.size() > kept_) events_.pop_front();
  }
  strand_.Post([this] {
    for (const auto& [id, watcher] : watchers_) watcher->OnEvent();
  });
}

absl::StatusOr<PlanEventPtr> PlanWatchers::Event(uint64_t number) const {
  absl::MutexLock lock(&mutex_);
  if (number >= next_event_) return nullptr;
  const uint64_t back = next_event_ - number;
  if (back > events_.size()) return TooSlow(kept_);
  return events_[events_.size() - back];
}

void PlanWatchers::EndAll(const absl::Status& status) {
  absl::Notification done;
  const bool posted = strand_.Post([this, &done, status] {
    ended_ = status;
    for (const auto& [id, watcher] : std::exchange(watchers_, {})) {
      --count_;
      watcher->End(status);
    }
    DropUnread();
    done.Notify();
  });
  if (posted) done.WaitForNotification();
}

}  // namespace remesh::server
