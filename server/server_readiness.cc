// SPDX-License-Identifier: Apache-2.0
#include "server/server_readiness.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace remesh::server {
namespace {

constexpr absl::Duration kControllerPatience = absl::Seconds(1);

absl::Status NotStarted() { return absl::UnavailableError("not started"); }

}  // namespace

void ServerReadiness::Enter(Phase phase) {
  absl::MutexLock lock(&mutex_);
  phase_ = phase;
}

void ServerReadiness::SetCore(Core* core) {
  absl::MutexLock lock(&mutex_);
  core_ = core;
}

std::vector<service::ReadinessCheck> ServerReadiness::Checks() {
  return {{"serving", [this] { return CheckServing(); }},
          {"journal", [this] { return CheckJournal(); }},
          {"controller", [this] { return CheckController(); }}};
}

absl::Status ServerReadiness::CheckServing() const {
  absl::MutexLock lock(&mutex_);
  switch (phase_) {
    case Phase::kOpeningJournal:
      return absl::UnavailableError("recovering: the journal is checked and read");
    case Phase::kStarting:
      return absl::UnavailableError("the server starts");
    case Phase::kServing:
      return absl::OkStatus();
    case Phase::kStopping:
      return absl::UnavailableError("the server stops: executions may end, none begins");
  }
  return absl::InternalError("no such phase");
}

absl::Status ServerReadiness::CheckJournal() const {
  absl::ReaderMutexLock lock(&mutex_);
  if (core_ == nullptr) return NotStarted();
  if (core_->journal_lost()) {
    return absl::FailedPreconditionError(
        "lost: its files were deleted or replaced, so that nothing is decided; save what the "
        "server "
        "has (remeshctl journal backup) before it is stopped");
  }
  if (!core_->journal_behind()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "behind: a worker knows of a later journal, so that nothing is decided; restore it, or start "
      "with accept_older_journal");
}

absl::Status ServerReadiness::CheckController() const {
  absl::ReaderMutexLock lock(&mutex_);
  if (core_ == nullptr) return NotStarted();
  auto answer = std::make_shared<absl::Status>();
  auto answered = std::make_shared<absl::Notification>();
  v1::ListWorkersRequest question;
  question.set_page_size(1);
  core_->Call(Request(std::move(question)), [=](const absl::StatusOr<Reply>& reply) {
    *answer = reply.status();
    answered->Notify();
  });
  if (answered->WaitForNotificationWithTimeout(kControllerPatience)) return *answer;
  return absl::UnavailableError(
      absl::StrCat("no answer within ", absl::FormatDuration(kControllerPatience)));
}

}  // namespace remesh::server
