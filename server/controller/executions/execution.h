// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "remesh/v1/reshard.pb.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/executions/attempt_commands.h"
#include "server/controller/executions/execution_hosts.h"
#include "server/controller/executions/execution_spec.h"
#include "server/controller/executions/peer_table.h"
#include "server/controller/executions/stalled_links.h"
#include "server/controller/values/event.h"
#include "server/controller/values/follow_up.h"

namespace remesh::server {

// Actions of an execution. OnSaved() follows after Save.
struct SendCommand {
  std::string host;
  v1::AttachResponse message;  // without epoch
};
// The Prepare of a participant. It is made when it can be sent: see MakePrepare().
struct SendPrepare {
  std::string host;
  std::shared_ptr<const Preparation> preparation;
  int participant = 0;
};
struct GiveUpOn {
  std::string host;  // it does not answer Abort: end its stream
};
using ExecutionAction = std::variant<SendCommand, SendPrepare, Save, GiveUpOn>;
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
// every host has verified; only GiveUp() takes it back. A pure state machine: it takes answers of
// workers, their absence, and time, and adds its actions to `out`.
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

  // `resource` has name, state, generations, plan, summary, windows and create_time. Starts queued.
  Execution(ExecutionSpec spec, v1::Execution resource);
  // An execution as the journal has it, with every host away. In phase COMMITTING it goes on; in
  // earlier phases it fails with PLANNER_RESTARTED; in later ones it stays as it is.
  static Execution Restore(ExecutionSpec spec, v1::Execution resource, ExecutionActions& out);

  // The execution's devices are free. `peers` has the participants, in their order.
  void Start(PeerTable peers, ExecutionActions& out);

  // Hosts that take no part, and answers that do not fit the step, are ignored.
  void OnPrepared(const std::string& host, Moment now, ExecutionActions& out);
  void OnWindowDone(const std::string& host, const v1::WindowDone& done, Moment now,
                    ExecutionActions& out);
  void OnVerified(const std::string& host, Moment now, ExecutionActions& out);
  void OnCommitted(const std::string& host, ExecutionActions& out);
  // `error`: what the host found about a chunk that arrived damaged elsewhere, or which hosts it
  // waited for when transfers stalled; OK: nothing.
  void OnQuiesced(const std::string& host, const google::rpc::Status& error, Moment now,
                  ExecutionActions& out);
  void OnAttemptFailed(const std::string& host, const google::rpc::Status& error, Moment now,
                       ExecutionActions& out);
  // The host has not committed, though it was asked to: it is asked again, later and later.
  void OnCommitFailed(const std::string& host, const google::rpc::Status& error, Moment now);
  // The host's worker is away, or has a new incarnation.
  void OnHostAway(const std::string& host, const absl::Status& why, Moment now,
                  ExecutionActions& out);
  // The host registered again. `holds_target`: it still has its shards of the target generation:
  // verified, readable, or unsealed by a trainer since.
  void OnHostReturned(const std::string& host, bool holds_target, ExecutionActions& out);
  void OnSaved(Save what, Moment now, ExecutionActions& out);
  void OnTick(Moment now, ExecutionActions& out);
  // Whether transfers stall, as far as is known: no window has ended anywhere for stall_timeout,
  // nor has a slice, by OnSlices() and OnMoved(). OnTick() fails it then. NCCL connects during the
  // first window, with limits of its own, so that one may take longer.
  bool Stalls(Moment now) const;
  // The host's moves of this execution have finished so many slices, counted from 1.
  void OnSlices(const std::string& host, uint64_t slices, Moment now);
  // A host whose worker does not tell its attempts apart finished slices at `when`, perhaps of
  // another execution.
  void OnMoved(Timestamp when) { moved_at_ = std::max(moved_at_, when); }
  // FAILED_PRECONDITION (EXECUTION_COMMITTING, EXECUTION_ENDED) when it is too late. Idempotent.
  absl::Status Cancel(Moment now, ExecutionActions& out);
  // Ends FAILED with `why`, source intact. REQUIRES: step() is kVerifying at most.
  void Stop(const absl::Status& why, Moment now, ExecutionActions& out);
  // Takes the decision back: ends FAILED with `why`. The caller knows that the source is whole or
  // no longer wanted, and writes Save::kFailure. REQUIRES: step() is kCommitting.
  void GiveUp(const absl::Status& why);
  // The server itself stood still for `pause`: no deadline or waiting time counts it.
  void ExtendDeadlines(Timestamp pause);

  Step step() const { return step_; }
  bool ended() const { return step_ == Step::kEnded; }
  const ExecutionSpec& spec() const { return spec_; }
  const v1::Execution& resource() const { return resource_; }
  bool has_participant(const std::string& host) const { return hosts_.IndexOf(host) >= 0; }
  // Whether no host can still hold anything that only this execution's record explains. REQUIRES:
  // ended().
  bool forgettable() const {
    return resource_.phase() == v1::Execution::SUCCEEDED || hosts_.settled();
  }
  // Whether a host came back without its shards of the target, or will not come back: see GiveUp().
  bool incomplete() const { return step_ == Step::kCommitting && hosts_.incomplete(); }
  // Drops what only a running execution needs. REQUIRES: ended().
  void DropTargets();
  // The resource as the journal must have it after `what`.
  v1::Execution ToSave(Save what, Moment now) const;

 private:
  bool can_fail() const { return step_ <= Step::kVerifying; }
  void SendToHost(int index, v1::AttachResponse message, ExecutionActions& out) const;
  void SendCommit(int index, ExecutionActions& out) const;
  void SendAbort(int index, ExecutionActions& out) const;
  void NoteIncomplete(int index);
  void Explain(const std::string& host, const google::rpc::Status& found);
  void FailIfStalled(Moment now, ExecutionActions& out);
  void NameStalled();
  std::vector<std::string> WaitedFor() const;
  // Fails when the deadline has passed and the execution can still fail; false: it goes on.
  bool FailIfLate(Moment now, ExecutionActions& out);
  void Fail(google::rpc::Status error, v1::Execution::Phase end_phase, Moment now,
            ExecutionActions& out);
  void GrantAhead(ExecutionActions& out);
  void StartVerifying(ExecutionActions& out);
  void FinishIfCommitted(ExecutionActions& out);
  void RecordIfQuiesced(ExecutionActions& out);
  int32_t WindowsDoneEverywhere() const;

  ExecutionSpec spec_;
  v1::Execution resource_;
  ExecutionHosts hosts_;  // in the order of spec_.participants
  StalledLinks stalled_;
  Step step_ = Step::kQueued;
  int32_t granted_ = 0;
  mutable int32_t done_everywhere_ = 0;                     // windows, when that was last asked for
  mutable int behind_ = 0;                                  // index of a host that had done no more
  v1::Execution::Phase end_phase_ = v1::Execution::FAILED;  // if the execution does not succeed
  Timestamp aborting_since_{0};
  Timestamp moved_at_{0};  // when transfers last made progress
  bool connects_by_nccl_ = false;
};

}  // namespace remesh::server
