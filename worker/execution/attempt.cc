// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/attempt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "service/rpc/error_info.h"

namespace remesh::worker {

Attempt::Actions Attempt::Start() { return {Reserve{}}; }

Attempt::Actions Attempt::Reserved(const absl::Status& status) {
  return Step(Phase::kReserving, status, Phase::kFetching, {FetchProgram{}});
}

Attempt::Actions Attempt::ProgramFetched(const absl::Status& status) {
  return Step(Phase::kFetching, status, Phase::kOpening, {Open{}});
}

Attempt::Actions Attempt::Opened(const absl::Status& status) {
  return Step(Phase::kOpening, status, Phase::kTransferring, {Prepared()});
}

Attempt::Actions Attempt::WindowDone(const WindowReport& report) {
  if (phase_ != Phase::kTransferring) return {};
  last_ = report;
  return {Progress()};
}

Attempt::Actions Attempt::MovingFailed(const absl::Status& status) { return Fail(status); }

Attempt::Actions Attempt::SourcesChecked(const absl::Status& status) {
  return Step(Phase::kVerifying, status, Phase::kVerifying, {MarkVerified{}});
}

Attempt::Actions Attempt::MarkedVerified(const absl::Status& status) {
  return Step(Phase::kVerifying, status, Phase::kVerified, {Verified()});
}

Attempt::Actions Attempt::MarkedReady(const absl::Status& status) {
  if (phase_ != Phase::kCommitting) return {};
  if (undone_) {
    phase_ = Phase::kStopping;
    return {StopMoving{}};
  }
  error_ = status;
  // The decision stands: the planner will say Commit again.
  phase_ = status.ok() ? Phase::kCommitted : Phase::kVerified;
  if (!status.ok()) return {Failed()};
  return {Committed(), StopMoving{}};
}

Attempt::Actions Attempt::Stopped() {
  if (phase_ == Phase::kCommitted) {
    phase_ = Phase::kOver;
    return {};
  }
  if (phase_ != Phase::kStopping) return {};
  phase_ = Phase::kOver;
  Send quiesced;
  *quiesced.message.mutable_quiesced()->mutable_attempt() = prepare_.attempt();
  if (!looked_.ok())
    *quiesced.message.mutable_quiesced()->mutable_error() = service::StatusToProto(looked_);
  return {DropTarget{undone_}, std::move(quiesced)};
}

Attempt::Actions Attempt::Grant(int32_t until) {
  if (phase_ == Phase::kFailed || phase_ == Phase::kStopping) return {};
  if (phase_ < Phase::kTransferring) return OutOfOrder("Grant");
  if (phase_ > Phase::kTransferring || until <= granted_) return {};
  granted_ = until;
  return {GrantWindows{until}};
}

Attempt::Actions Attempt::Verify() {
  if (phase_ == Phase::kVerified) return {Verified()};
  if (phase_ > Phase::kTransferring) return {};
  if (phase_ < Phase::kTransferring || last_.window + 1 < prepare_.windows())
    return OutOfOrder("Verify");
  phase_ = Phase::kVerifying;
  return {CheckSources{}};
}

Attempt::Actions Attempt::Commit() {
  if (phase_ == Phase::kCommitted) return {Committed()};
  if (phase_ != Phase::kVerified)
    return phase_ < Phase::kVerified ? OutOfOrder("Commit") : Actions{};
  phase_ = Phase::kCommitting;
  return {MarkReady{}};
}

Attempt::Actions Attempt::LookedAgain(const absl::Status& status) {
  if (phase_ != Phase::kStopping) return {};
  looked_ = status;
  return {StopMoving{}};
}

Attempt::Actions Attempt::Abort(bool even_committed, const absl::Status& why) {
  if (phase_ == Phase::kCommitted && !even_committed) return {Committed()};
  undone_ = undone_ || even_committed;
  if (phase_ == Phase::kCommitting || phase_ == Phase::kStopping || phase_ == Phase::kOver)
    return {};
  const bool stops = phase_ == Phase::kCommitted;  // already
  phase_ = Phase::kStopping;
  if (stops) return {};
  if (const auto chunk = ChunkNamedIn(why)) return {LookAgain{*chunk}};
  if (GetErrorInfo(why).reason == "LINK_STALLED") return {AskWaits{}};
  return {StopMoving{}};
}

Attempt::Actions Attempt::Reattached() const {
  if (phase_ == Phase::kFailed) return {Failed()};
  if (phase_ == Phase::kTransferring || phase_ == Phase::kVerifying) {
    Actions actions{Prepared()};
    if (last_.window >= 0) actions.push_back(Progress());
    return actions;
  }
  if (phase_ == Phase::kVerified) return {Verified()};
  if (phase_ == Phase::kCommitted) return {Committed()};
  return {};
}

Attempt::Actions Attempt::Step(Phase expected, const absl::Status& status, Phase next,
                               Actions actions) {
  if (phase_ != expected) return {};
  if (!status.ok()) return Fail(status);
  phase_ = next;
  return actions;
}

Attempt::Actions Attempt::Fail(const absl::Status& status) {
  if (phase_ >= Phase::kCommitting) return {};
  phase_ = Phase::kFailed;
  error_ = status;
  return {Failed()};
}

Attempt::Actions Attempt::OutOfOrder(const char* command) {
  return Fail(MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat(command, " came when ", prepare_.attempt().execution(), " was not ready for it"),
      {"COMMAND_OUT_OF_ORDER",
       {{"command", command}, {"execution", prepare_.attempt().execution()}}}));
}

Attempt::Send Attempt::Prepared() const {
  Send send;
  *send.message.mutable_prepared()->mutable_attempt() = prepare_.attempt();
  return send;
}

Attempt::Send Attempt::Verified() const {
  Send send;
  *send.message.mutable_verified()->mutable_attempt() = prepare_.attempt();
  return send;
}

Attempt::Send Attempt::Committed() const {
  Send send;
  *send.message.mutable_committed()->mutable_attempt() = prepare_.attempt();
  return send;
}

Attempt::Send Attempt::Failed() const {
  Send send;
  *send.message.mutable_failed()->mutable_attempt() = prepare_.attempt();
  *send.message.mutable_failed()->mutable_error() = service::StatusToProto(error_);
  return send;
}

Attempt::Send Attempt::Progress() const {
  Send send;
  v1::WindowDone& done = *send.message.mutable_window_done();
  *done.mutable_attempt() = prepare_.attempt();
  done.set_window(last_.window);
  done.set_sent_bytes(last_.bytes.sent());
  done.set_received_bytes(last_.bytes.received());
  done.set_copied_bytes(last_.bytes.copied);
  return send;
}

}  // namespace remesh::worker
