// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "remesh/v1/reshard.pb.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/event.h"
#include "server/controller/execution_hosts.h"
#include "server/controller/execution_spec.h"
#include "server/controller/follow_up.h"

namespace remesh::server {

// What an execution wants done; after Save, OnSaved() follows.
struct Tell {
  std::string host;
  v1::AttachResponse message;  // without epoch
};
struct GiveUpOn {
  std::string host;  // answers no Abort: its stream shall end
};
using ExecutionAction = std::variant<Tell, Save, GiveUpOn>;
using ExecutionActions = std::vector<ExecutionAction>;

// One run of a plan against a state:
//
//   queued → preparing → transferring → verifying → deciding → committing → finishing → ended
//     │          │            │             │                      │                (SUCCEEDED)
//     └──────────┴─────┬──────┴─────────────┘ any failure          │ GiveUp()
//                      ▼                                           ▼
//                   aborting ─────────────────────────────────→ recording → ended
//                                                                  (FAILED, CANCELLED)
//
// deciding, finishing and recording wait for the journal. The decision to commit is made once, when
// every host has verified; only GiveUp() takes it back. A pure state machine: answers of workers,
// their absence, and time come in; what is to be done goes to `out`. Each event and each question
// is a method of its own, so it has more than 25 methods.
class Execution {
 public:
  enum class Step : int8_t {
    kQueued,
    kPreparing,
    kTransferring,
    kVerifying,
    kDeciding,
    kCommitting,
    kFinishing,
    kAborting,
    kRecording,
    kEnded,
  };

  // `resource` holds name, state, generations, plan, summary, windows and create_time. Starts
  // queued.
  Execution(ExecutionSpec spec, v1::Execution resource);
  // As a journal tells it, every host away. COMMITTING goes on; earlier phases fail with
  // PLANNER_RESTARTED; later ones stay.
  static Execution Restore(ExecutionSpec spec, v1::Execution resource, ExecutionActions& out);

  // Its devices are free. `peers`: one a participant, in their order.
  void Start(const std::vector<v1::PeerEntry>& peers, const v1::Communicators& communicators,
             ExecutionActions& out);

  // Hosts that take no part, and answers that do not fit the step, are ignored.
  void OnPrepared(const std::string& host, Moment now, ExecutionActions& out);
  void OnWindowDone(const std::string& host, const v1::WindowDone& done, ExecutionActions& out);
  void OnVerified(const std::string& host, Moment now, ExecutionActions& out);
  void OnCommitted(const std::string& host, ExecutionActions& out);
  // `error`: what the host found of a chunk that arrived spoiled elsewhere; OK: nothing.
  void OnQuiesced(const std::string& host, const google::rpc::Status& error, Moment now,
                  ExecutionActions& out);
  void OnAttemptFailed(const std::string& host, const google::rpc::Status& error, Moment now,
                       ExecutionActions& out);
  // The host's worker is away, or lives another life.
  void OnHostAway(const std::string& host, const absl::Status& why, Moment now,
                  ExecutionActions& out);
  // It registered again; `holds_target`: the execution's shards of the target generation are still
  // there, verified, readable, or unsealed by a trainer since.
  void OnHostReturned(const std::string& host, bool holds_target, ExecutionActions& out);
  void OnSaved(Save what, Moment now, ExecutionActions& out);
  void OnTick(Moment now, ExecutionActions& out);
  // FAILED_PRECONDITION (EXECUTION_COMMITTING, EXECUTION_ENDED) when it is too late. Idempotent.
  absl::Status Cancel(Moment now, ExecutionActions& out);
  // Ends FAILED with `why`, source intact. REQUIRES: step() is kVerifying at most.
  void Stop(const absl::Status& why, Moment now, ExecutionActions& out);
  // Takes the decision back: ends FAILED with `why`. The caller knows that the source is whole or
  // no longer wanted, and writes Save::kFailure. REQUIRES: step() is kCommitting.
  void GiveUp(const absl::Status& why);
  // The server itself stood still for `pause`: no time of waiting counts it.
  void Forgive(Timestamp pause);

  Step step() const { return step_; }
  bool ended() const { return step_ == Step::kEnded; }
  const ExecutionSpec& spec() const { return spec_; }
  const v1::Execution& resource() const { return resource_; }
  bool has_participant(const std::string& host) const { return hosts_.IndexOf(host) >= 0; }
  // No host can still hold anything that only this execution's record explains. REQUIRES: ended().
  bool forgettable() const {
    return resource_.phase() == v1::Execution::SUCCEEDED || hosts_.settled();
  }
  // A host came back without its shards of the target, or will not come: see GiveUp().
  bool incomplete() const { return step_ == Step::kCommitting && hosts_.incomplete(); }
  // Forgets what only a running execution needs. REQUIRES: ended().
  void DropTargets();
  // The resource as the journal shall hold it after `what`.
  v1::Execution ToSave(Save what, Moment now) const;

 private:
  bool can_fail() const { return step_ <= Step::kVerifying; }
  void TellHost(int index, v1::AttachResponse message, ExecutionActions& out) const;
  void TellCommit(int index, ExecutionActions& out) const;
  void TellAbort(int index, ExecutionActions& out) const;
  void Explain(const std::string& host, const google::rpc::Status& found);
  void Fail(google::rpc::Status error, v1::Execution::Phase end_phase, Moment now,
            ExecutionActions& out);
  void GrantAhead(ExecutionActions& out);
  void StartVerifying(ExecutionActions& out);
  void FinishIfCommitted(ExecutionActions& out);
  void RecordIfQuiesced(ExecutionActions& out);
  int32_t WindowsDoneEverywhere() const;

  ExecutionSpec spec_;
  v1::Execution resource_;
  ExecutionHosts hosts_;  // as spec_.participants
  Step step_ = Step::kQueued;
  int32_t granted_ = 0;
  v1::Execution::Phase end_phase_ = v1::Execution::FAILED;  // of an execution that does not succeed
  Timestamp aborting_since_{0};
};

}  // namespace remesh::server
