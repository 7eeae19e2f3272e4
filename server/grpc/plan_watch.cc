// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/plan_watch.h"

#include <utility>

#include "base/error.h"
#include "server/cache/plan_filter.h"
#include "server/cache/plan_list.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

// Small, because each of many streams may hold a page of existing plans until it is read.
constexpr size_t kPageSize = 16;

PlanEventPtr Existing(v1::Plan plan) {
  auto event = std::make_shared<v1::WatchPlansResponse>();
  event->set_event(v1::WatchPlansResponse::EXISTING);
  *event->mutable_plan() = std::move(plan);
  return event;
}

PlanEventPtr Synced() {
  auto event = std::make_shared<v1::WatchPlansResponse>();
  event->set_event(v1::WatchPlansResponse::SYNCED);
  return event;
}

}  // namespace

PlanWatchStream* PlanWatchStream::Start(Core& core, OpenWatches::Place place, std::string caller,
                                        const v1::PlanFilter& filter) {
  std::shared_ptr<PlanWatchStream> stream(
      new PlanWatchStream(core, std::move(place), std::move(caller), filter));
  stream->self_ = stream;
  absl::ReleasableMutexLock lock(&stream->mutex_);
  // Before the first page is read, so that no change falls between the two.
  stream->watch_ = core.plans().watchers().Add(stream);
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
  for (v1::Plan& plan : page.plans) page_.push_back(std::move(plan));
  Proceed(lock);
}

void PlanWatchStream::RequestPage() {
  if (loading_) return;
  ThreadPool& pool = core_.streamers().pool();
  loading_ = pool.Post({.caller = caller_}, [stream = self_] { stream->LoadPage(); });
  if (!loading_) EndLocked(NotTaken(pool));
}

void PlanWatchStream::OnEvent() {
  absl::ReleasableMutexLock lock(&mutex_);
  Proceed(lock);
}

void PlanWatchStream::End(const absl::Status& status) {
  absl::ReleasableMutexLock lock(&mutex_);
  EndLocked(status);
  Proceed(lock);
}

void PlanWatchStream::EndLocked(const absl::Status& status) {
  if (!end_) end_ = status;
}

void PlanWatchStream::OnWriteDone(bool ok) {
  absl::ReleasableMutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) EndLocked(absl::CancelledError("the caller hung up"));
  Proceed(lock);
}

void PlanWatchStream::OnCancel() { End(absl::CancelledError("the caller hung up")); }

void PlanWatchStream::OnDone() {
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = watch_.id;
  }
  core_.plans().watchers().Remove(id);
  place_ = {};
  self_ = nullptr;  // may be the last owner
}

PlanEventPtr PlanWatchStream::Next() {
  if (end_) return nullptr;
  if (!page_.empty()) {
    PlanEventPtr existing = Existing(std::move(page_.front()));
    page_.pop_front();
    return existing;
  }
  if (next_page_) {
    RequestPage();
    return nullptr;
  }
  if (!std::exchange(synced_, true)) return Synced();
  return NextEvent();
}

PlanEventPtr PlanWatchStream::NextEvent() {
  while (true) {
    absl::StatusOr<PlanEventPtr> event = core_.plans().watchers().Event(watch_.next_event);
    if (!event.ok()) EndLocked(event.status());
    if (!event.ok() || *event == nullptr) return nullptr;
    ++watch_.next_event;
    if (Matches(filter_, (*event)->plan())) return *std::move(event);
  }
}

void PlanWatchStream::Proceed(absl::ReleasableMutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (writing_ || finished_) return;
  current_ = Next();
  if (current_ != nullptr) {
    writing_ = true;
    lock.Release();
    StartWrite(current_.get());
    return;
  }
  if (!end_) return;
  finished_ = true;
  const grpc::Status status = service::StatusToGrpc(*end_);
  lock.Release();
  Finish(status);
}

}  // namespace remesh::server
