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

// What one watcher of plans has still to be told, in bounded memory.
//
// Up to SYNCED it is told how plans stand, not each step: the list is read page by page as the
// watcher takes it, and of a plan that changes meanwhile the newest event waits. When more than
// `waiting` plans do, those that are still there are forgotten, and the list is read again from the
// newest plan to the furthest that was forgotten: so whoever reads faster than plans change gets to
// the end, however many change. A plan that is gone stands in no list: that it went waits until it
// is told, beyond a few in a room that all watchers share, unless it was never told of.
//
// From SYNCED on each event waits. A value with no lock and no clock.
class PlanWatchQueue {
 public:
  struct Limits {
    size_t waiting = 1024;    // plans that changed before SYNCED; events after it
    size_t gone = 16'384;     // plans that went before SYNCED
    int64_t gone_alone = 64;  // of these, without the shared room
    int restarts = 8;         // of the walk
    // Events that others may have been told since: keeps those that anybody shares to so many.
    uint64_t age = 16'384;
  };
  // `room` must outlive the queue.
  explicit PlanWatchQueue(WatchRoom& room) : PlanWatchQueue(room, Limits()) {}
  PlanWatchQueue(WatchRoom& room, const Limits& limits) : room_(room), limits_(limits) {}
  ~PlanWatchQueue() { Clear(); }
  PlanWatchQueue(const PlanWatchQueue&) = delete;
  PlanWatchQueue& operator=(const PlanWatchQueue&) = delete;

  // What is to be told next; null: nothing, until a page has been read or an event comes.
  PlanEventPtr Next();

  // After Next() said null: whether a page must be read.
  bool wants_page() const { return !synced_ && walk_.wants_page(); }
  // Just before a page is read: the place that it comes after. What happens from now on is told
  // after the page. REQUIRES: wants_page().
  PlanCache::Place BeginPage() { return walk_.BeginPage(); }
  void AddPage(PlanPage page);

  // `wanted`: the watcher's filter wants it. RESOURCE_EXHAUSTED (WATCH_TOO_SLOW): the watcher must
  // begin anew.
  absl::Status AddEvent(const PlanEventPtr& event, bool wanted);

  // Gives up all that waits.
  void Clear();
  // Events that wait, those of a page among them.
  size_t waiting() const { return page_.size() + changed_.size() + gone_.size() + live_.size(); }

 private:
  PlanEventPtr NextBeforeSynced();
  absl::Status AddBeforeSynced(const PlanEventPtr& event, bool wanted);
  absl::Status AddGone(const PlanEventPtr& event);
  absl::Status ForgetChanges();
  // Takes or gives back shared room as gone_ needs it; false: there is not enough.
  bool SettleRoom();
  bool IsTooOld(const PlanEventPtr& waiting, const PlanEventPtr& now) const;
  absl::Status TooSlow() const;

  WatchRoom& room_;
  const Limits limits_;
  PlanWalk walk_;
  std::deque<PlanEventPtr> page_;  // what has been read of the list
  NewestPlanEvents changed_;       // before SYNCED: of plans that are there
  NewestPlanEvents gone_;          // before SYNCED: of plans that are not
  int64_t room_taken_ = 0;
  NamesTold told_;  // before SYNCED
  std::deque<PlanEventPtr> live_;
  bool synced_ = false;
};

}  // namespace remesh::server
