// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/plan_watch.h"

#include <utility>

#include "base/error.h"
#include "server/cache/plan_filter.h"
#include "server/cache/plan_list.h"
#include "service/error_info.h"

namespace remesh::server {
namespace {

// Small, because each of many streams may hold a page of existing plans until it is read.
constexpr size_t kPageSize = 16;

}  // namespace

PlanWatchStream* PlanWatchStream::Start(Core& core, OpenWatches::Place place, std::string caller,
                                        const v1::PlanFilter& filter) {
  std::shared_ptr<PlanWatchStream> stream(
      new PlanWatchStream(core, std::move(place), std::move(caller), filter));
  stream->self_ = stream;
  stream->watch_ = core.plans().watchers().Add(stream);
  absl::ReleasableMutexLock lock(&stream->mutex_);
  stream->Proceed(lock);
  return stream.get();
}

void PlanWatchStream::LoadPage() {
  PlanCache::Place place;
  {
    absl::MutexLock lock(&mutex_);
    if (end_) return;
    place = queue_.BeginPage();
  }
  PlanPage page = PageOfPlans(core_.plans(), kPageSize, place, filter_, v1::BASIC);
  absl::ReleasableMutexLock lock(&mutex_);
  loading_ = false;
  if (!end_) queue_.AddPage(std::move(page));
  Proceed(lock);
}

void PlanWatchStream::Offer(const PlanEventPtr& event) {
  const bool wanted = Matches(filter_, event->told.plan());
  absl::ReleasableMutexLock lock(&mutex_);
  if (end_ || finished_) return;
  if (absl::Status status = queue_.AddEvent(event, wanted); !status.ok()) EndLocked(status);
  Proceed(lock);
}

void PlanWatchStream::End(const absl::Status& status) {
  absl::ReleasableMutexLock lock(&mutex_);
  EndLocked(status);
  Proceed(lock);
}

void PlanWatchStream::EndLocked(const absl::Status& status) {
  if (!end_) end_ = status;
  queue_.Clear();  // events after a gap would mislead
}

void PlanWatchStream::OnWriteDone(bool ok) {
  absl::ReleasableMutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) EndLocked(absl::CancelledError("the caller hung up"));
  Proceed(lock);
}

void PlanWatchStream::OnCancel() {
  core_.plans().watchers().Remove(watch_);
  End(absl::CancelledError("the caller hung up"));
}

void PlanWatchStream::OnDone() {
  core_.plans().watchers().Remove(watch_);
  place_ = {};
  self_ = nullptr;  // may be the last owner
}

void PlanWatchStream::Proceed(absl::ReleasableMutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (writing_ || finished_) return;
  current_ = end_ ? nullptr : queue_.Next();
  if (current_ != nullptr) {
    writing_ = true;
    lock.Release();
    StartWrite(&current_->told);
    return;
  }
  if (!end_ && queue_.wants_page() && !loading_) {
    loading_ = true;
    ThreadPool& pool = core_.streamers().pool();
    if (pool.Post({.caller = caller_}, [stream = self_] { stream->LoadPage(); })) return;
    EndLocked(NotTaken(pool));
  }
  if (!end_) return;
  finished_ = true;
  const grpc::Status status = service::StatusToGrpc(*end_);
  lock.Release();
  Finish(status);
}

}  // namespace remesh::server
