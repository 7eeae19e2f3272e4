// SPDX-License-Identifier: Apache-2.0
// What ends an execution early, and hosts that go away and come back.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "server/controller/execution.h"
#include "service/error_info.h"

namespace remesh {

void Execution::Fail(google::rpc::Status error, v1::Execution::Phase end_phase, Moment now,
                     ExecutionActions& out) {
  if (!can_fail()) return;
  step_ = Step::kAborting;
  end_phase_ = end_phase;
  aborting_since_ = now.steady;
  *resource_.mutable_error() = std::move(error);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].told && !hosts_[i].away) TellAbort(i, out);
  }
  RecordIfQuiesced(out);
}

void Execution::TellAbort(int index, ExecutionActions& out) {
  out.push_back(Tell{.host = spec_.participants[index].host, .message = {}});
  v1::Abort& abort = *std::get<Tell>(out.back()).message.mutable_abort();
  *abort.mutable_attempt() = spec_.attempt;
  abort.set_state(resource_.state());
  abort.set_state_uid(resource_.state_uid());
  abort.set_generation(resource_.target_generation());
}

void Execution::RecordIfQuiesced(ExecutionActions& out) {
  for (const HostState& host : hosts_) {
    if (host.told && !host.quiesced && !host.away) return;
  }
  step_ = Step::kRecording;
  out.emplace_back(Save::kFailure);
}

void Execution::OnQuiesced(const std::string& host, Moment now, ExecutionActions& out) {
  const int index = IndexOf(host);
  if (index < 0 || step_ < Step::kAborting) return;
  hosts_[index].quiesced = hosts_[index].settled = true;
  if (step_ == Step::kAborting) RecordIfQuiesced(out);
}

void Execution::OnAttemptFailed(const std::string& host, const google::rpc::Status& error,
                                Moment now, ExecutionActions& out) {
  const int index = IndexOf(host);
  if (index < 0) return;
  google::rpc::Status named = error;
  named.set_message(absl::StrCat("host ", host, ": ", error.message()));
  if (named.code() == 0) named.set_code(static_cast<int>(absl::StatusCode::kInternal));
  if (step_ == Step::kCommitting && !hosts_[index].committed) {
    *resource_.mutable_error() = std::move(named);
    return CommitFailed(hosts_[index], now);
  }
  Fail(std::move(named), v1::Execution::FAILED, now, out);
}

// The decision stands: Commit is repeated until it works, ever more rarely.
void Execution::CommitFailed(HostState& host, Moment now) {
  constexpr Timestamp kFirst = std::chrono::seconds(1), kMost = std::chrono::seconds(30);
  const Timestamp pause = kFirst * (1 << std::min(host.commit_failures, 5));
  ++host.commit_failures;
  host.commit_again = now.steady + std::min(pause, kMost);
}

void Execution::RepeatCommits(Moment now, ExecutionActions& out) {
  if (step_ != Step::kCommitting) return;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    HostState& host = hosts_[i];
    if (host.commit_failures == 0 || host.committed || host.away) continue;
    if (now.steady < host.commit_again) continue;
    TellCommit(static_cast<int>(i), out);
    CommitFailed(host, now);  // unless it answers otherwise
  }
}

void Execution::OnHostAway(const std::string& host, const absl::Status& why, Moment now,
                           ExecutionActions& out) {
  const int index = IndexOf(host);
  if (index < 0 || ended()) return;
  hosts_[index].away = true;
  if (can_fail()) {
    Fail(StatusToProto(why), v1::Execution::FAILED, now, out);
  } else if (step_ == Step::kAborting) {
    RecordIfQuiesced(out);
  } else if (step_ == Step::kCommitting) {
    // What it has acknowledged may be gone when it comes back: it must say it again.
    if (spec_.participants[index].receives()) hosts_[index].committed = false;
    FinishIfCommitted(out);
  }
}

void Execution::OnHostReturned(const std::string& host, bool holds_target, ExecutionActions& out) {
  const int index = IndexOf(host);
  if (index < 0) return;
  HostState& state = hosts_[index];
  state.away = false;
  state.incomplete = false;
  state.settled = ended();
  const bool failed = step_ >= Step::kAborting && resource_.phase() != v1::Execution::SUCCEEDED;
  if (failed && state.told && !state.quiesced) TellAbort(index, out);
  if (step_ != Step::kCommitting || state.committed) return;
  if (!spec_.participants[index].receives()) {
    // It may live another life and know nothing of the attempt; if it does, the message ends the
    // attempt there.
    TellCommit(index, out);
    state.committed = true;
    return FinishIfCommitted(out);
  }
  if (holds_target) return TellCommit(index, out);
  state.incomplete = true;
  const absl::Status error =
      MakeError(absl::StatusCode::kDataLoss,
                absl::StrCat("host ", host, " came back without its shards of the target"),
                {.reason = "COMMIT_INCOMPLETE", .metadata = {{"host", host}}});
  *resource_.mutable_error() = StatusToProto(error);
}

void Execution::GiveUp(const absl::Status& why, ExecutionActions& out) {
  REMESH_CHECK(step_ == Step::kCommitting);
  *resource_.mutable_error() = StatusToProto(why);
  end_phase_ = v1::Execution::FAILED;
  step_ = Step::kRecording;
  out.emplace_back(Save::kFailure);
}

void Execution::Forgive(Timestamp pause) {
  spec_.deadline += pause;
  aborting_since_ += pause;
  for (HostState& host : hosts_) host.commit_again += pause;
}

void Execution::OnTick(Moment now, ExecutionActions& out) {
  RepeatCommits(now, out);
  if (can_fail() && now.steady >= spec_.deadline) {
    const absl::Status error =
        MakeError(absl::StatusCode::kDeadlineExceeded, "the execution's deadline passed",
                  {.reason = "EXECUTION_DEADLINE", .metadata = {}});
    Fail(StatusToProto(error), v1::Execution::FAILED, now, out);
  }
  if (step_ != Step::kAborting || now.steady - aborting_since_ < spec_.quiesce_timeout) return;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const HostState& host = hosts_[i];
    if (host.told && !host.quiesced && !host.away) {
      out.push_back(GiveUpOn{.host = spec_.participants[i].host});
    }
  }
}

absl::Status Execution::Cancel(Moment now, ExecutionActions& out) {
  const ErrorInfo info{.reason = "", .metadata = {{"execution", resource_.name()}}};
  if (step_ >= Step::kDeciding && step_ <= Step::kFinishing) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat(resource_.name(), " is committing"),
                     {.reason = "EXECUTION_COMMITTING", .metadata = info.metadata});
  }
  if (ended()) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat(resource_.name(), " has ended"),
                     {.reason = "EXECUTION_ENDED", .metadata = info.metadata});
  }
  const absl::Status error = MakeError(absl::StatusCode::kCancelled, "cancelled by the caller",
                                       {.reason = "EXECUTION_CANCELLED", .metadata = {}});
  Fail(StatusToProto(error), v1::Execution::CANCELLED, now, out);
  return absl::OkStatus();
}

}  // namespace remesh
