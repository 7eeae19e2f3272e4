// SPDX-License-Identifier: Apache-2.0
#include "server/controller/execution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "server/controller/proto_time.h"
#include "service/error_info.h"

namespace remesh {

Execution::Execution(ExecutionSpec spec, v1::Execution resource)
    : spec_(std::move(spec)), resource_(std::move(resource)), hosts_(spec_.participants.size()) {
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
  for (HostState& host : execution.hosts_) host = HostState{.told = true, .away = true};
  if (before.phase() == v1::Execution::COMMITTING) {
    execution.step_ = Step::kCommitting;
    execution.FinishIfCommitted(out);
    return execution;
  }
  if (before.has_end_time()) {
    execution.step_ = Step::kEnded;
    execution.end_phase_ = before.phase();
    for (HostState& host : execution.hosts_) host.quiesced = true;
    return execution;
  }
  const absl::Status error =
      MakeError(absl::StatusCode::kUnavailable, "the server restarted before the commit",
                {.reason = "PLANNER_RESTARTED", .metadata = {}});
  execution.Fail(StatusToProto(error), v1::Execution::FAILED, Moment{}, out);
  return execution;
}

int Execution::IndexOf(const std::string& host) const {
  auto found =
      std::lower_bound(spec_.participants.begin(), spec_.participants.end(), host,
                       [](const Participant& p, const std::string& name) { return p.host < name; });
  if (found == spec_.participants.end() || found->host != host) return -1;
  return static_cast<int>(found - spec_.participants.begin());
}

template <typename Predicate>
bool Execution::AllHosts(Predicate predicate) const {
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (!predicate(hosts_[i], spec_.participants[i])) return false;
  }
  return true;
}

v1::AttachResponse& Execution::TellHost(int index, ExecutionActions& out) const {
  out.push_back(Tell{.host = spec_.participants[index].host, .message = {}});
  return std::get<Tell>(out.back()).message;
}

void Execution::Start(const std::vector<v1::PeerEntry>& peers, ExecutionActions& out) {
  REMESH_CHECK(step_ == Step::kQueued && peers.size() == hosts_.size());
  step_ = Step::kPreparing;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i].told = true;
    v1::Prepare& prepare = *TellHost(i, out).mutable_prepare();
    *prepare.mutable_attempt() = spec_.attempt;
    *prepare.mutable_target() = spec_.participants[i].target;
    prepare.set_source_generation(resource_.source_generation());
    prepare.set_plan(resource_.plan());
    prepare.set_fingerprint(spec_.fingerprint);
    prepare.set_self(static_cast<int32_t>(i));
    *prepare.mutable_peers() = {peers.begin(), peers.end()};
    prepare.set_windows(resource_.windows());
    prepare.set_window_bytes(spec_.window_bytes);
  }
}

void Execution::OnPrepared(const std::string& host, Moment now, ExecutionActions& out) {
  const int index = IndexOf(host);
  if (index < 0 || step_ != Step::kPreparing) return;
  hosts_[index].prepared = true;
  if (!AllHosts([](const HostState& state, const Participant&) { return state.prepared; })) return;
  step_ = Step::kTransferring;
  resource_.set_phase(v1::Execution::TRANSFERRING);
  SetTime(now.wall, *resource_.mutable_transfer_start_time());
  GrantAhead(out);
  if (resource_.windows() == 0) StartVerifying(out);
}

int32_t Execution::WindowsDoneEverywhere() const {
  int32_t done = resource_.windows();
  for (const v1::HostProgress& host : resource_.hosts()) done = std::min(done, host.windows_done());
  return done;
}

void Execution::GrantAhead(ExecutionActions& out) {
  const int64_t until =
      std::min<int64_t>(resource_.windows(), int64_t{WindowsDoneEverywhere()} + spec_.grant_ahead);
  if (until <= granted_) return;
  granted_ = static_cast<int32_t>(until);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    v1::Grant& grant = *TellHost(i, out).mutable_grant();
    *grant.mutable_attempt() = spec_.attempt;
    grant.set_until(granted_);
  }
}

void Execution::OnWindowDone(const std::string& host, const v1::WindowDone& done,
                             ExecutionActions& out) {
  const int index = IndexOf(host);
  if (index < 0 || step_ != Step::kTransferring) return;
  v1::HostProgress& progress = *resource_.mutable_hosts(index);
  if (done.window() < progress.windows_done() || done.window() >= granted_) return;
  progress.set_windows_done(done.window() + 1);
  progress.set_sent_bytes(std::max(progress.sent_bytes(), done.sent_bytes()));
  progress.set_received_bytes(std::max(progress.received_bytes(), done.received_bytes()));
  progress.set_copied_bytes(std::max(progress.copied_bytes(), done.copied_bytes()));
  GrantAhead(out);
  if (WindowsDoneEverywhere() == resource_.windows()) StartVerifying(out);
}

void Execution::StartVerifying(ExecutionActions& out) {
  step_ = Step::kVerifying;
  resource_.set_phase(v1::Execution::VERIFYING);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    *TellHost(i, out).mutable_verify()->mutable_attempt() = spec_.attempt;
  }
}

void Execution::OnVerified(const std::string& host, Moment now, ExecutionActions& out) {
  const int index = IndexOf(host);
  if (index < 0 || step_ != Step::kVerifying) return;
  hosts_[index].verified = true;
  if (!AllHosts([](const HostState& state, const Participant&) { return state.verified; })) return;
  step_ = Step::kDeciding;
  SetTime(now.wall, *resource_.mutable_transfer_end_time());
  out.emplace_back(Save::kDecision);
}

void Execution::TellCommit(int index, ExecutionActions& out) {
  v1::Commit& commit = *TellHost(index, out).mutable_commit();
  *commit.mutable_attempt() = spec_.attempt;
  commit.set_state(resource_.state());
  commit.set_state_uid(resource_.state_uid());
  commit.set_generation(resource_.target_generation());
}

void Execution::OnCommitted(const std::string& host, ExecutionActions& out) {
  const int index = IndexOf(host);
  if (index < 0 || step_ != Step::kCommitting) return;
  hosts_[index].committed = true;
  FinishIfCommitted(out);
}

void Execution::FinishIfCommitted(ExecutionActions& out) {
  // Who only gave has nothing to make readable: its absence holds up nobody.
  if (!AllHosts([](const HostState& state, const Participant& participant) {
        return state.committed || (state.away && !participant.receives());
      })) {
    return;
  }
  step_ = Step::kFinishing;
  resource_.clear_error();  // what delayed it is over
  out.emplace_back(Save::kSuccess);
}

void Execution::OnSaved(Save what, Moment now, ExecutionActions& out) {
  if (what == Save::kDecision && step_ == Step::kDeciding) {
    step_ = Step::kCommitting;
    resource_.set_phase(v1::Execution::COMMITTING);
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (!hosts_[i].away) TellCommit(i, out);
    }
    FinishIfCommitted(out);
  } else if ((what == Save::kSuccess && step_ == Step::kFinishing) ||
             (what == Save::kFailure && step_ == Step::kRecording)) {
    step_ = Step::kEnded;
    resource_ = ToSave(what, now);
  }
}

bool Execution::forgettable() const {
  if (resource_.phase() == v1::Execution::SUCCEEDED) return true;
  return AllHosts(
      [](const HostState& state, const Participant&) { return !state.told || state.settled; });
}

bool Execution::incomplete() const {
  return step_ == Step::kCommitting &&
         !AllHosts([](const HostState& state, const Participant& participant) {
           const bool waits_for = state.away && participant.receives() && !state.committed;
           return !state.incomplete && !waits_for;
         });
}

void Execution::DropTargets() {
  REMESH_CHECK(ended());
  for (Participant& participant : spec_.participants) participant.target.Clear();
}

v1::Execution Execution::ToSave(Save what, Moment now) const {
  v1::Execution saved = resource_;
  if (what == Save::kDecision) {
    saved.set_phase(v1::Execution::COMMITTING);
    return saved;
  }
  saved.set_phase(what == Save::kSuccess ? v1::Execution::SUCCEEDED : end_phase_);
  SetTime(now.wall, *saved.mutable_end_time());
  return saved;
}

}  // namespace remesh
