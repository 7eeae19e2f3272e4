// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/plan_watch.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/cache/plan_filter.h"
#include "server/cache/plan_list.h"
#include "service/error_info.h"

namespace remesh::server {
namespace {

// Each stream holds its own page of what is there until it is read: small, for there may be many.
constexpr size_t kPageSize = 16;

absl::Status WatchTooSlow() {
  const std::string most = absl::StrCat(PlanWatchStream::kWaitingMax);
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("more than ", most, " events wait to be read: watch again"),
                   {.reason = "WATCH_TOO_SLOW", .metadata = {{"events_max", most}}});
}

}  // namespace

PlanWatchStream* PlanWatchStream::Start(Core& core, std::string caller,
                                        const v1::PlanFilter& filter) {
  std::shared_ptr<PlanWatchStream> stream(new PlanWatchStream(core, std::move(caller), filter));
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
    place = *next_page_;
  }
  PlanPage page = PageOfPlans(core_.plans(), kPageSize, place, filter_, v1::BASIC);
  absl::ReleasableMutexLock lock(&mutex_);
  loading_ = false;
  next_page_ = page.next;
  for (v1::Plan& plan : page.plans) {
    auto there = std::make_shared<v1::WatchPlansResponse>();
    there->set_event(v1::WatchPlansResponse::EXISTING);
    *there->mutable_plan() = std::move(plan);
    ready_.push_back(std::move(there));
  }
  if (!next_page_) {
    auto synced = std::make_shared<v1::WatchPlansResponse>();
    synced->set_event(v1::WatchPlansResponse::SYNCED);
    ready_.push_back(std::move(synced));
    std::move(later_.begin(), later_.end(), std::back_inserter(ready_));
    later_.clear();
  }
  Proceed(lock);
}

void PlanWatchStream::Offer(const PlanEventPtr& event) {
  if (!Matches(filter_, event->plan())) return;
  absl::ReleasableMutexLock lock(&mutex_);
  if (end_ || finished_) return;
  std::deque<PlanEventPtr>& queue = next_page_ ? later_ : ready_;
  queue.push_back(event);
  if (queue.size() > kWaitingMax + (next_page_ ? 0 : kPageSize)) EndLocked(WatchTooSlow());
  Proceed(lock);
}

void PlanWatchStream::End(const absl::Status& status) {
  absl::ReleasableMutexLock lock(&mutex_);
  EndLocked(status);
  Proceed(lock);
}

void PlanWatchStream::EndLocked(const absl::Status& status) {
  if (!end_) end_ = status;
  ready_.clear();  // what follows a gap would mislead
  later_.clear();
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
  self_ = nullptr;  // may be the last owner
}

void PlanWatchStream::Proceed(absl::ReleasableMutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (writing_ || finished_) return;
  if (!ready_.empty()) {
    writing_ = true;
    current_ = std::move(ready_.front());
    ready_.pop_front();
    lock.Release();
    StartWrite(current_.get());
    return;
  }
  if (!end_ && next_page_ && !loading_) {
    loading_ = true;
    const bool posted =
        core_.streamers().Post({.caller = caller_}, [stream = self_] { stream->LoadPage(); });
    if (posted) return;
    end_ = ShuttingDown();
  }
  if (!end_) return;
  finished_ = true;
  const grpc::Status status = service::StatusToGrpc(*end_);
  lock.Release();
  Finish(status);
}

}  // namespace remesh::server
