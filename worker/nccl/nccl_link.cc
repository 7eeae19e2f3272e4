// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl_link.h"

#include <utility>

#include "absl/time/time.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

// The pause between polls of NCCL and the streams.
constexpr absl::Duration kPoll = absl::Microseconds(50);

}  // namespace

NcclLink::NcclLink(const NcclApi* api, std::unique_ptr<NcclRunner> runner, bool makes_id,
                   std::chrono::milliseconds leave, std::function<void()> notify)
    : api_(api),
      runner_(std::move(runner)),
      makes_id_(makes_id),
      leave_(leave),
      notify_(std::move(notify)),
      worker_([this] { Run(); }) {}

NcclLink::~NcclLink() {
  REMESH_CHECK(gone());
  worker_.join();
  std::thread aborter;
  {
    absl::MutexLock lock(&mutex_);
    aborter = std::move(shared_.aborter);
  }
  aborter.join();
}

std::optional<nccl::UniqueId> NcclLink::made_id() const {
  absl::MutexLock lock(&mutex_);
  return shared_.made_id;
}

void NcclLink::Connect(std::vector<nccl::UniqueId> ids) {
  absl::MutexLock lock(&mutex_);
  shared_.ids = std::move(ids);
}

bool NcclLink::connected() const {
  absl::MutexLock lock(&mutex_);
  return shared_.connected;
}

void NcclLink::Post(NcclWindow window) {
  absl::MutexLock lock(&mutex_);
  shared_.posted.push_back(std::move(window));
}

std::vector<NcclWindow> NcclLink::TakeDone() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(shared_.done, {});
}

std::vector<NcclWindow> NcclLink::TakeRest() {
  absl::MutexLock lock(&mutex_);
  REMESH_CHECK(shared_.gone);
  std::vector<NcclWindow> rest = runner_->TakeRest();
  for (NcclWindow& window : shared_.posted) rest.push_back(std::move(window));
  shared_.posted.clear();
  return rest;
}

void NcclLink::Stop(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  if (!shared_.status.ok()) return;
  shared_.status = std::move(why);
  shared_.stopped_at = std::chrono::steady_clock::now();
  shared_.aborter = std::thread([this] { TearDown(); });
}

absl::Status NcclLink::status() const {
  absl::MutexLock lock(&mutex_);
  return shared_.status;
}

bool NcclLink::stuck(std::chrono::milliseconds after) const {
  absl::MutexLock lock(&mutex_);
  if (!shared_.stopped_at.has_value() || shared_.gone) return false;
  return std::chrono::steady_clock::now() >= *shared_.stopped_at + after;
}

bool NcclLink::gone() const {
  absl::MutexLock lock(&mutex_);
  return shared_.gone;
}

void NcclLink::Run() {
  Stop(Work());
  absl::MutexLock lock(&mutex_);
  shared_.left = true;
}

absl::Status NcclLink::Work() {
  if (makes_id_) RETURN_IF_ERROR(MakeId());
  ASSIGN_OR_RETURN(const std::vector<nccl::UniqueId> ids, AwaitIds());
  RETURN_IF_ERROR(runner_->Init(ids));
  while (true) {
    ASSIGN_OR_RETURN(std::vector<NcclWindow> done, runner_->Step());
    if (!done.empty()) {
      {
        absl::MutexLock lock(&mutex_);
        for (NcclWindow& window : done) shared_.done.push_back(std::move(window));
      }
      notify_();
    }
    ASSIGN_OR_RETURN(std::optional<NcclWindow> next, AwaitNext());
    if (next.has_value()) RETURN_IF_ERROR(runner_->Start(*std::move(next)));
  }
}

absl::Status NcclLink::MakeId() {
  nccl::UniqueId id;
  RETURN_IF_ERROR(NcclStatus(*api_, "ncclGetUniqueId", api_->get_unique_id(&id), nullptr));
  {
    absl::MutexLock lock(&mutex_);
    shared_.made_id = id;
  }
  notify_();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<nccl::UniqueId>> NcclLink::AwaitIds() {
  auto may_go_on = [](Shared* shared) { return !shared->status.ok() || !shared->ids.empty(); };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(+may_go_on, &shared_));
  RETURN_IF_ERROR(shared_.status);
  return shared_.ids;
}

absl::StatusOr<std::optional<NcclWindow>> NcclLink::AwaitNext() {
  auto stopped = [](Shared* shared) { return !shared->status.ok(); };
  auto news = [](Shared* shared) { return !shared->status.ok() || !shared->posted.empty(); };
  absl::MutexLock lock(&mutex_);
  shared_.connected = shared_.connected || !runner_->starting();
  if (runner_->idle()) {
    mutex_.Await(absl::Condition(+news, &shared_));
  } else if (runner_->starting() || shared_.posted.empty()) {
    mutex_.AwaitWithTimeout(absl::Condition(+stopped, &shared_), kPoll);
  }
  RETURN_IF_ERROR(shared_.status);
  if (runner_->starting() || shared_.posted.empty()) return std::nullopt;
  NcclWindow next = std::move(shared_.posted.front());
  shared_.posted.pop_front();
  return next;
}

void NcclLink::TearDown() {
  auto left = [](Shared* shared) { return shared->left; };
  {
    absl::MutexLock lock(&mutex_);
    // A call that is stuck in NCCL nevertheless returns when its communicators are aborted.
    mutex_.AwaitWithTimeout(absl::Condition(+left, &shared_), absl::FromChrono(leave_));
  }
  runner_->Abort();
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(+left, &shared_));
    shared_.gone = true;
  }
  notify_();
}

}  // namespace remesh::worker
