// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "server/cache/newest_plan_events.h"
#include "server/cache/plan_list.h"
#include "server/cache/plan_walk.h"
#include "server/cache/plan_watchers.h"

namespace remesh::server {

// The events that one watcher of plans has still to get, in bounded memory.
//
// Before SYNCED the watcher gets the present state of each plan, not every change. The list is read
// page by page at the watcher's pace; of a plan that changes meanwhile only the newest event waits.
// When the events of more than `waiting` plans wait, those of plans that still exist are dropped,
// and the list is read again from the newest plan to the furthest one dropped. So a watcher that
// reads faster than plans change reaches the end, however many change. A plan that is gone is in no
// list, so its event must wait until the watcher gets it, unless the watcher was never told of the
// plan. Beyond a few, such events take room that all watchers share.
//
// After SYNCED every event waits. When too many wait, they are dropped, and the queue starts over:
// the watcher gets RESYNC and then the present state of each plan, as at the start. A value with no
// lock and no clock.
class PlanWatchQueue {
 public:
  struct Limits {
    size_t waiting = 1024;    // plans that changed before SYNCED; events after it
    size_t gone = 16'384;     // plans that went before SYNCED
    int64_t gone_alone = 64;  // of these, so many need no shared room
    int restarts = 8;         // of the walk through the list
    // How many events may be published after one that waits, which bounds the number of events in
    // memory.
    uint64_t age = 16'384;
  };
  // `room` must outlive the queue.
  explicit PlanWatchQueue(WatchRoom& room) : PlanWatchQueue(room, Limits()) {}
  PlanWatchQueue(WatchRoom& room, const Limits& limits) : room_(room), limits_(limits) {}
  ~PlanWatchQueue() { Clear(); }
  PlanWatchQueue(const PlanWatchQueue&) = delete;
  PlanWatchQueue& operator=(const PlanWatchQueue&) = delete;

  // The next event for the watcher; null: none until a page has been read or an event comes.
  PlanEventPtr Next();

  // Whether a page must be read, after Next() returned null.
  bool wants_page() const { return !synced_ && walk_.wants_page(); }
  // Call just before a page is read; returns the place that the page comes after. Events from now
  // on are told after the page. REQUIRES: wants_page().
  PlanCache::Place BeginPage() { return walk_.BeginPage(); }
  void AddPage(PlanPage page);

  // `wanted`: whether the event passes the watcher's filter. RESOURCE_EXHAUSTED (WATCH_TOO_SLOW),
  // only before SYNCED: the walk through the list was restarted too often, or too many events of
  // plans that are gone wait; the watcher must watch again.
  absl::Status AddEvent(const PlanEventPtr& event, bool wanted);

  // Drops all events that wait.
  void Clear();
  // The number of events that wait, including those of a page.
  size_t waiting() const { return page_.size() + changed_.size() + gone_.size() + live_.size(); }

 private:
  PlanEventPtr NextBeforeSynced();
  void BeginAnew();
  absl::Status AddBeforeSynced(const PlanEventPtr& event, bool wanted);
  absl::Status AddGone(const PlanEventPtr& event);
  absl::Status ForgetChanges();
  // Takes or returns shared room as gone_ needs it; false: there is not enough.
  bool SettleRoom();
  bool IsTooOld(const PlanEventPtr& waiting, const PlanEventPtr& now) const;
  absl::Status TooSlow() const;

  WatchRoom& room_;
  const Limits limits_;
  PlanWalk walk_;
  std::deque<PlanEventPtr> page_;  // plans read from the list
  NewestPlanEvents changed_;       // before SYNCED: of plans that exist
  NewestPlanEvents gone_;          // before SYNCED: of plans that are gone
  int64_t room_taken_ = 0;
  NamesTold told_;  // before SYNCED
  std::deque<PlanEventPtr> live_;
  bool synced_ = false;
  bool anew_ = false;  // the next event is RESYNC
};

}  // namespace remesh::server
