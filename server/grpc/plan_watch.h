// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "remesh/v1/plan.pb.h"
#include "server/cache/plan_cache.h"
#include "server/callers/open_watches.h"
#include "server/core.h"

namespace remesh::server {

// A stream of WatchPlans at the reader's pace: the pages of the list, SYNCED, and the events since
// the stream began. Holds at most one page; the events wait in PlanWatchers. Uses no thread while
// it waits. Lives until gRPC calls OnDone().
class PlanWatchStream : public grpc::ServerWriteReactor<v1::WatchPlansResponse>,
                        public PlanWatcher {
 public:
  // REQUIRES: a valid filter.
  static PlanWatchStream* Start(Core& core, OpenWatches::Place place, std::string caller,
                                const v1::PlanFilter& filter);

  void OnEvent() override;
  void End(const absl::Status& status) override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  PlanWatchStream(Core& core, OpenWatches::Place place, std::string caller,
                  const v1::PlanFilter& filter)
      : core_(core), place_(std::move(place)), caller_(std::move(caller)), filter_(filter) {}

  // Reads the next page of existing plans; runs on a pool's thread.
  void LoadPage();
  // Has LoadPage() run, unless it runs already.
  void RequestPage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next message to send; null: none until a page has been read or an event comes, or the
  // stream is to end.
  PlanEventPtr Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next event that passes the filter.
  PlanEventPtr NextEvent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts the next operation if none is running. Releases the lock first, because gRPC may call
  // back at once.
  void Proceed(absl::ReleasableMutexLock& lock);

  Core& core_;
  OpenWatches::Place place_;
  const std::string caller_;  // in whose turn it reads pages
  const v1::PlanFilter filter_;
  std::shared_ptr<PlanWatchStream> self_;
  PlanEventPtr current_;  // belongs to the write under way
  absl::Mutex mutex_;
  PlanWatchers::Watch watch_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::Plan> page_ ABSL_GUARDED_BY(mutex_);  // read, and not sent yet
  // Where the next page begins; none: all pages have been read.
  std::optional<PlanCache::Place> next_page_ ABSL_GUARDED_BY(mutex_) = PlanCache::Place();
  bool loading_ ABSL_GUARDED_BY(mutex_) = false;
  bool synced_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace remesh::server
