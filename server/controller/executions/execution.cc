// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/execution.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/error.h"
#include "server/controller/executions/attempt_commands.h"
#include "service/rpc/error_info.h"

namespace remesh::server {

using service::StatusToProto;

namespace {

constexpr size_t kNamedMax = 8;  // hosts in an error
constexpr char kStalled[] = "LINK_STALLED";
constexpr char kNotVerified[] = "NOT_VERIFIED";

google::protobuf::Timestamp ToProto(absl::Time time) {
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(time));
}

// The error that a host reported, with the host's name. Shortened like the server's own errors,
// because it goes into the journal, the log and every answer. Whatever the host reports as an error
// is one.
google::rpc::Status NamedBy(const std::string& host, const google::rpc::Status& error) {
  google::rpc::Status named = error;
  named.set_message(absl::StrCat("host ", host, ": ", error.message()));
  if (named.code() == 0) named.set_code(static_cast<int>(absl::StatusCode::kInternal));
  return StatusToProto(service::StatusFromProto(named));
}

std::string ReasonOf(const google::rpc::Status& error) {
  return GetErrorInfo(service::StatusFromProto(error)).reason;
}

}  // namespace

Execution::Execution(ExecutionSpec spec, v1::Execution resource)
    : spec_(std::move(spec)), resource_(std::move(resource)), hosts_(spec_.participants) {
  resource_.set_phase(v1::Execution::PREPARING);
  resource_.clear_hosts();
  for (const Participant& participant : spec_.participants) {
    resource_.add_hosts()->set_host(participant.host);
  }
}

Execution Execution::Restore(ExecutionSpec spec, v1::Execution resource, ExecutionActions& out) {
  const v1::Execution before = resource;
  Execution execution(std::move(spec), std::move(resource));
  execution.resource_ = before;
  const bool committing = before.phase() == v1::Execution::COMMITTING;
  execution.hosts_.Restore(!committing && before.has_end_time());
  if (committing) {
    execution.step_ = Step::kCommitting;
    execution.FinishIfCommitted(out);
    return execution;
  }
  if (before.has_end_time()) {
    execution.step_ = Step::kEnded;
    execution.end_phase_ = before.phase();
    return execution;
  }
  const absl::Status error =
      MakeError(absl::StatusCode::kUnavailable, "the server restarted before the commit",
                {.reason = "PLANNER_RESTARTED", .metadata = {}});
  execution.Fail(StatusToProto(error), v1::Execution::FAILED, Moment{}, out);
  return execution;
}

void Execution::SendToHost(int index, v1::AttachResponse message, ExecutionActions& out) const {
  out.push_back(SendCommand{.host = spec_.participants[index].host, .message = std::move(message)});
}

void Execution::SendCommit(int index, ExecutionActions& out) const {
  SendToHost(index, MakeCommit(spec_.attempt, resource_), out);
}

void Execution::SendAbort(int index, ExecutionActions& out) const {
  SendToHost(index, MakeAbort(spec_.attempt, resource_), out);
}

void Execution::Start(PeerTable peers, ExecutionActions& out) {
  REMESH_CHECK(step_ == Step::kQueued && peers.size() == hosts_.size());
  step_ = Step::kPreparing;
  connects_by_nccl_ = peers.connects_by_nccl();
  v1::Execution resource = resource_;
  resource.clear_hosts();
  const auto preparation = std::make_shared<const Preparation>(
      Preparation{.spec = spec_, .resource = std::move(resource), .peers = std::move(peers)});
  spec_.exchanges = {};  // what only the Prepares need
  for (size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i].told = true;
    out.push_back(SendPrepare{
        .host = hosts_[i].name, .preparation = preparation, .participant = static_cast<int>(i)});
  }
}

void Execution::OnPrepared(const std::string& host, Moment now, ExecutionActions& out) {
  const int index = hosts_.IndexOf(host);
  if (index < 0 || step_ != Step::kPreparing) return;
  hosts_[index].prepared = true;
  if (!hosts_.prepared()) return;
  step_ = Step::kTransferring;
  resource_.set_phase(v1::Execution::TRANSFERRING);
  moved_at_ = now.steady;
  *resource_.mutable_transfer_start_time() = ToProto(now.wall);
  GrantAhead(out);
  if (resource_.windows() == 0) StartVerifying(out);
}

// What hosts have done never falls. So one that has done no more than the last answer proves it.
int32_t Execution::WindowsDoneEverywhere() const {
  const int hosts = resource_.hosts_size();
  for (int looked = 0; looked < hosts; ++looked) {
    if (resource_.hosts(behind_).windows_done() <= done_everywhere_) return done_everywhere_;
    behind_ = (behind_ + 1) % hosts;
  }
  done_everywhere_ = resource_.windows();
  for (const v1::HostProgress& host : resource_.hosts()) {
    done_everywhere_ = std::min(done_everywhere_, host.windows_done());
  }
  return done_everywhere_;
}

void Execution::GrantAhead(ExecutionActions& out) {
  const int64_t until =
      std::min<int64_t>(resource_.windows(), int64_t{WindowsDoneEverywhere()} + spec_.grant_ahead);
  if (until <= granted_) return;
  granted_ = static_cast<int32_t>(until);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    SendToHost(static_cast<int>(i), MakeGrant(spec_.attempt, granted_), out);
  }
}

void Execution::OnWindowDone(const std::string& host, const v1::WindowDone& done, Moment now,
                             ExecutionActions& out) {
  const int index = hosts_.IndexOf(host);
  if (index < 0 || step_ != Step::kTransferring) return;
  v1::HostProgress& progress = *resource_.mutable_hosts(index);
  if (done.window() < progress.windows_done() || done.window() >= granted_) return;
  progress.set_windows_done(done.window() + 1);
  OnMoved(now.steady);
  progress.set_sent_bytes(std::max(progress.sent_bytes(), done.sent_bytes()));
  progress.set_received_bytes(std::max(progress.received_bytes(), done.received_bytes()));
  progress.set_copied_bytes(std::max(progress.copied_bytes(), done.copied_bytes()));
  GrantAhead(out);
  if (WindowsDoneEverywhere() == resource_.windows()) StartVerifying(out);
}

void Execution::OnSlices(const std::string& host, uint64_t slices, Moment now) {
  const int index = hosts_.IndexOf(host);
  if (index < 0 || slices <= hosts_[index].slices) return;
  hosts_[index].slices = slices;
  OnMoved(now.steady);
}

void Execution::StartVerifying(ExecutionActions& out) {
  step_ = Step::kVerifying;
  resource_.set_phase(v1::Execution::VERIFYING);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    SendToHost(static_cast<int>(i), MakeVerify(spec_.attempt), out);
  }
}

void Execution::OnVerified(const std::string& host, Moment now, ExecutionActions& out) {
  const int index = hosts_.IndexOf(host);
  if (index < 0 || step_ != Step::kVerifying) return;
  hosts_[index].verified = true;
  if (!hosts_.verified() || FailIfLate(now, out)) return;
  step_ = Step::kDeciding;
  *resource_.mutable_transfer_end_time() = ToProto(now.wall);
  out.emplace_back(Save::kDecision);
}

void Execution::OnCommitted(const std::string& host, ExecutionActions& out) {
  const int index = hosts_.IndexOf(host);
  if (index < 0 || step_ != Step::kCommitting) return;
  hosts_[index].committed = true;
  hosts_[index].incomplete = false;
  FinishIfCommitted(out);
}

void Execution::FinishIfCommitted(ExecutionActions& out) {
  if (!hosts_.committed()) return;
  step_ = Step::kFinishing;
  resource_.clear_error();  // the cause of the delay is over
  out.emplace_back(Save::kSuccess);
}

void Execution::OnSaved(Save what, Moment now, ExecutionActions& out) {
  if (what == Save::kDecision && step_ == Step::kDeciding) {
    step_ = Step::kCommitting;
    resource_.set_phase(v1::Execution::COMMITTING);
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (!hosts_[i].away && !hosts_[i].incomplete) SendCommit(static_cast<int>(i), out);
    }
    FinishIfCommitted(out);
  } else if ((what == Save::kSuccess && step_ == Step::kFinishing) ||
             (what == Save::kFailure && step_ == Step::kRecording)) {
    const bool given_up = what == Save::kFailure && resource_.phase() == v1::Execution::COMMITTING;
    step_ = Step::kEnded;
    resource_ = ToSave(what, now);
    // A host that has acknowledged Commit is done with the attempt; Reconcile() deals with what it
    // holds.
    for (size_t i = 0; given_up && i < hosts_.size(); ++i) {
      if (!hosts_[i].away && !hosts_[i].committed) SendAbort(static_cast<int>(i), out);
    }
  }
}

void Execution::DropTargets() {
  REMESH_CHECK(ended());
  for (Participant& participant : spec_.participants) participant.target = nullptr;
}

v1::Execution Execution::ToSave(Save what, Moment now) const {
  v1::Execution saved = resource_;
  if (what == Save::kDecision) {
    saved.set_phase(v1::Execution::COMMITTING);
    return saved;
  }
  saved.set_phase(what == Save::kSuccess ? v1::Execution::SUCCEEDED : end_phase_);
  *saved.mutable_end_time() = ToProto(now.wall);
  return saved;
}

void Execution::Fail(google::rpc::Status error, v1::Execution::Phase end_phase, Moment now,
                     ExecutionActions& out) {
  if (!can_fail()) return;
  step_ = Step::kAborting;
  end_phase_ = end_phase;
  aborting_since_ = now.steady;
  *resource_.mutable_error() = std::move(error);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].told && !hosts_[i].away) SendAbort(static_cast<int>(i), out);
  }
  RecordIfQuiesced(out);
}

bool Execution::FailIfLate(Moment now, ExecutionActions& out) {
  if (!can_fail() || now.steady < spec_.deadline) return false;
  const std::string phase =
      step_ == Step::kQueued ? "QUEUED" : v1::Execution::Phase_Name(resource_.phase());
  std::vector<std::string> hosts = WaitedFor();
  const std::string count = absl::StrCat(hosts.size(), " of ", hosts_.size(), " hosts");
  if (hosts.size() > kNamedMax) hosts.resize(kNamedMax);
  const std::string named = absl::StrJoin(hosts, ",");
  const absl::Status error = MakeError(
      absl::StatusCode::kDeadlineExceeded,
      absl::StrCat("the execution's deadline passed while it was ", phase,
                   named.empty() ? "" : absl::StrCat(" and waited for ", count, ": "), named),
      {.reason = "EXECUTION_DEADLINE", .metadata = {{"phase", phase}, {"hosts", named}}});
  Fail(StatusToProto(error), v1::Execution::FAILED, now, out);
  return true;
}

bool Execution::Stalls(Moment now) const {
  if (step_ != Step::kTransferring || spec_.stall_timeout == Timestamp(0)) return false;
  if (now.steady - moved_at_ < spec_.stall_timeout) return false;
  return !connects_by_nccl_ || WindowsDoneEverywhere() > 0;
}

void Execution::FailIfStalled(Moment now, ExecutionActions& out) {
  if (!Stalls(now)) return;
  const std::string after = absl::FormatDuration(absl::FromChrono(spec_.stall_timeout));
  const absl::Status error =
      MakeError(absl::StatusCode::kUnavailable,
                absl::StrCat("no slice got through between any of its hosts for ", after),
                {.reason = kStalled, .metadata = {}});
  Fail(StatusToProto(error), v1::Execution::FAILED, now, out);
}

// The hosts that have not done what the step waits for; while bytes move, those that are furthest
// behind.
std::vector<std::string> Execution::WaitedFor() const {
  const int32_t least = WindowsDoneEverywhere();
  std::vector<std::string> names;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const bool waited_for = step_ == Step::kPreparing ? !hosts_[i].prepared
                            : step_ == Step::kTransferring
                                ? resource_.hosts(static_cast<int>(i)).windows_done() == least
                                : step_ == Step::kVerifying && !hosts_[i].verified;
    if (waited_for) names.push_back(hosts_[i].name);
  }
  return names;
}

void Execution::RecordIfQuiesced(ExecutionActions& out) {
  if (!hosts_.quiet()) return;
  if (ReasonOf(resource_.error()) == kStalled) NameStalled();
  stalled_ = {};
  step_ = Step::kRecording;
  out.emplace_back(Save::kFailure);
}

// Explains a chunk whose digest did not match: if its origin finds that the source memory has
// changed since it was read, the memory was written in the meantime, and no link is to blame.
void Execution::Explain(const std::string& host, const google::rpc::Status& found) {
  const std::string reason = ReasonOf(resource_.error());
  if (reason == kStalled) stalled_.Report(host, GetErrorInfo(service::StatusFromProto(found)));
  if (reason == "DIGEST_MISMATCH" && found.code() != 0)
    *resource_.mutable_error() = NamedBy(host, found);
}

// Transfers that stall are explained by what all hosts said that they wait for.
void Execution::NameStalled() {
  const std::string links = absl::StrJoin(stalled_.Named(), ", ");
  if (links.empty()) return;
  *resource_.mutable_error() =
      StatusToProto(MakeError(absl::StatusCode::kUnavailable,
                              absl::StrCat("transfers between hosts make no progress: ", links),
                              {.reason = kStalled, .metadata = {{"links", links}}}));
}

void Execution::OnQuiesced(const std::string& host, const google::rpc::Status& error, Moment now,
                           ExecutionActions& out) {
  const int index = hosts_.IndexOf(host);
  if (index < 0 || step_ < Step::kAborting) return;
  if (step_ == Step::kAborting) Explain(host, error);
  hosts_[index].quiesced = hosts_[index].settled = true;
  if (step_ == Step::kAborting) RecordIfQuiesced(out);
}

void Execution::OnAttemptFailed(const std::string& host, const google::rpc::Status& error,
                                Moment now, ExecutionActions& out) {
  const int index = hosts_.IndexOf(host);
  if (index < 0) return;
  OnCommitFailed(host, error, now);
  Fail(NamedBy(host, error), v1::Execution::FAILED, now, out);
}

void Execution::OnCommitFailed(const std::string& host, const google::rpc::Status& error,
                               Moment now) {
  const int index = hosts_.IndexOf(host);
  if (index < 0 || step_ != Step::kCommitting || hosts_[index].committed) return;
  *resource_.mutable_error() = NamedBy(host, error);
  hosts_.CommitFailed(index, now.steady);  // the decision stands
  // The host has nothing to commit. It may have lost its shards in a way that ended no stream.
  if (hosts_[index].receives && ReasonOf(error) == kNotVerified) hosts_[index].incomplete = true;
}

void Execution::OnHostAway(const std::string& host, const absl::Status& why, Moment now,
                           ExecutionActions& out) {
  const int index = hosts_.IndexOf(host);
  if (index < 0 || ended()) return;
  hosts_[index].away = true;
  // The host may lose what it has acknowledged before it comes back, and messages to it may never
  // arrive, so it must acknowledge again.
  hosts_[index].committed = false;
  if (can_fail()) {
    Fail(StatusToProto(why), v1::Execution::FAILED, now, out);
  } else if (step_ == Step::kAborting) {
    RecordIfQuiesced(out);
  } else if (step_ == Step::kCommitting) {
    FinishIfCommitted(out);
  }
}

void Execution::OnHostReturned(const std::string& host, bool holds_target, ExecutionActions& out) {
  const int index = hosts_.IndexOf(host);
  if (index < 0) return;
  ExecutionHost& state = hosts_[index];
  state.away = false;
  state.incomplete = false;
  state.settled = ended();
  // COMMITTING: either the success or the withdrawal of the decision is being written.
  const bool failed = step_ >= Step::kAborting && resource_.phase() != v1::Execution::SUCCEEDED &&
                      resource_.phase() != v1::Execution::COMMITTING;
  if (failed && state.told && !state.quiesced) SendAbort(index, out);
  // A host that receives no shards may come back while the decision or the success is being
  // written.
  const bool decided = step_ == Step::kDeciding || step_ == Step::kCommitting;
  const bool finishing = step_ == Step::kFinishing && !state.receives;
  if ((!decided && !finishing) || state.committed) return;
  if (!state.receives) {
    // The host may have begun another life and know nothing of the attempt. If it does know the
    // attempt, the message ends it there.
    if (step_ != Step::kDeciding) SendCommit(index, out);  // else OnSaved() does
    state.committed = true;
    if (step_ == Step::kCommitting) FinishIfCommitted(out);
    return;
  }
  if (!holds_target) return NoteIncomplete(index);
  if (step_ == Step::kCommitting) SendCommit(index, out);
}

// The host is back without its shards of the target. While the decision is being written this must
// be noted too: the host has no attempt left that could report it later.
void Execution::NoteIncomplete(int index) {
  const std::string& host = hosts_[index].name;
  hosts_[index].incomplete = true;
  const absl::Status error =
      MakeError(absl::StatusCode::kDataLoss,
                absl::StrCat("host ", host, " came back without its shards of the target"),
                {.reason = "COMMIT_INCOMPLETE", .metadata = {{"host", host}}});
  *resource_.mutable_error() = StatusToProto(error);
}

void Execution::GiveUp(const absl::Status& why) {
  REMESH_CHECK(step_ == Step::kCommitting);
  *resource_.mutable_error() = StatusToProto(why);
  end_phase_ = v1::Execution::FAILED;
  step_ = Step::kRecording;
}

void Execution::ExtendDeadlines(Timestamp pause) {
  spec_.deadline += pause;
  aborting_since_ += pause;
  moved_at_ += pause;
  hosts_.ExtendDeadlines(pause);
}

void Execution::OnTick(Moment now, ExecutionActions& out) {
  if (step_ == Step::kCommitting) {
    for (const int index : hosts_.CommitsToRepeat(now.steady)) {
      SendCommit(index, out);
      hosts_.CommitFailed(index, now.steady);  // unless the host answers otherwise
    }
  }
  FailIfLate(now, out);
  FailIfStalled(now, out);
  if (step_ != Step::kAborting || now.steady - aborting_since_ < spec_.quiesce_timeout) return;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const ExecutionHost& host = hosts_[i];
    if (host.told && !host.quiesced && !host.away) {
      out.push_back(GiveUpOn{.host = host.name});
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

void Execution::Stop(const absl::Status& why, Moment now, ExecutionActions& out) {
  REMESH_CHECK(can_fail());
  Fail(StatusToProto(why), v1::Execution::FAILED, now, out);
}

}  // namespace remesh::server
