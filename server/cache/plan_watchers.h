// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/strand.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::server {

struct PlanEvent {
  uint64_t number = 0;  // rises with each event that is published
  v1::WatchPlansResponse told;
};
// Shared by all watchers that an event waits for.
using PlanEventPtr = std::shared_ptr<const PlanEvent>;

// Room for events that must not be dropped, shared by all watchers. Thread-safe.
class WatchRoom {
 public:
  static constexpr int64_t kEvents = 65'536;

  explicit WatchRoom(int64_t events = kEvents) : left_(events) {}
  // False: less room than that is left, and none was taken.
  bool Take(int64_t events);
  void GiveBack(int64_t events) { left_ += events; }
  int64_t left() const { return left_; }

 private:
  std::atomic<int64_t> left_;
};

// A watcher of plans. Called on a strand of PlanWatchers; must not block.
class PlanWatcher {
 public:
  virtual ~PlanWatcher() = default;
  virtual void Offer(const PlanEventPtr& event) = 0;
  virtual void End(const absl::Status& status) = 0;
};

// Hands every event to every watcher, in the order of publication. Thread-safe. May be called under
// a lock, because watchers get events later.
class PlanWatchers {
 public:
  // The watcher gets all events published from now on.
  uint64_t Add(std::shared_ptr<PlanWatcher> watcher);
  // The watcher may still get events that were published before. Idempotent.
  void Remove(uint64_t id);
  bool any() const { return count_ > 0; }
  int64_t count() const { return count_; }

  WatchRoom& room() { return room_; }

  void Publish(v1::WatchPlansResponse event);
  // Ends all watchers, and ends later ones at once. Returns when all have been told.
  void EndAll(const absl::Status& status);

 private:
  WatchRoom room_;  // first: watchers return room to it when destroyed
  std::atomic<uint64_t> published_{0};
  std::atomic<int64_t> count_{0};
  std::atomic<uint64_t> next_{1};
  // Used only by tasks of the strand.
  std::map<uint64_t, std::shared_ptr<PlanWatcher>> watchers_;
  absl::Status ended_;
  Strand strand_;  // last: it uses all of the above
};

}  // namespace remesh::server
