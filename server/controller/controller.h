// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/controller/action.h"
#include "server/controller/device_ledger.h"
#include "server/controller/enrolment.h"
#include "server/controller/event.h"
#include "server/controller/execution.h"
#include "server/controller/held.h"
#include "server/controller/journal_past.h"
#include "server/controller/records.h"
#include "server/controller/state_registry.h"
#include "server/controller/tombstones.h"
#include "server/controller/worker_registry.h"

namespace remesh {

struct ControllerOptions {
  Timestamp heartbeat_interval = std::chrono::seconds(1);
  Timestamp lost_after = std::chrono::seconds(5);            // of silence
  Timestamp execution_deadline = std::chrono::seconds(300);  // of requests that name none
  Timestamp quiesce_timeout = std::chrono::seconds(4);  // most time for workers to end an attempt
  int32_t grant_ahead = 8;                  // windows granted beyond those done everywhere
  size_t page_bytes_max = size_t{2} << 20;  // of a list's page, however many entries are asked for
  size_t states_max = 10'000;
  size_t finished_executions_max = 1000;  // older ones are dropped
  size_t tombstones_max = 10'000;         // deletions that are remembered
  // Between ticks. One that comes later than twice this tells that the server itself stood still.
  // 0: ticks come at any time.
  Timestamp tick_interval{0};
  std::set<std::string> join_token_hashes;  // see EnrolmentRules
  TopologyRules topology_rules;
};

// What a request_id of StartExecution belongs to: a state, not its name.
std::string RequestKey(const std::string& state, const std::string& state_uid,
                       const std::string& request_id);

// Orders executions from the newest to the oldest.
std::string AgeKey(const v1::Execution& execution);

// For metrics.
struct Census {
  int64_t workers = 0;
  int64_t workers_alive = 0;
  std::map<v1::State::Phase, int64_t> states;
  int64_t executions_running = 0;
  int64_t owed_generations = 0;  // on workers: what can be neither used nor proved to be free
  int64_t owed_bytes = 0;
  bool journal_behind = false;
  bool journal_full = false;
};

// Decides everything the server decides: who is attached, which states exist, what each execution
// does next. Events in, actions out; no I/O, no clock, no locks, and randomness is handed in, so
// that a seed replays a life. Not thread-safe: one strand owns it.
class Controller {
 public:
  // 64 random bits a call; attempt tokens and execution ids are made of it.
  using Random = std::function<uint64_t()>;

  // Takes up where `restored` ends, with a higher epoch. Start() comes first, once.
  Controller(ControllerOptions options, Random random, Restored restored);
  Actions Start(Moment now);
  Actions Handle(Event event, Moment now);

  Census TakeCensus() const;
  uint64_t epoch() const { return epoch_; }

 private:
  using Continuation = std::function<void()>;
  struct Move {  // an execution and what the controller needs to know of it
    Execution execution;
    std::shared_ptr<const PlacedState> target;
    std::set<DeviceKey> devices;
    bool keeps_plan = false;
    std::string request_digest;   // of the StartExecution; empty: from a journal without it
    bool durable = true;          // the journal has it
    std::vector<CallId> waiting;  // until then
  };
  struct PendingStart {  // a StartExecution that is being planned
    std::vector<CallId> calls;
    v1::StartExecutionRequest request;
    Moment asked;
  };
  struct PendingCreate {  // a CreateState that is being journaled
    std::vector<CallId> calls;
    std::string request_id;
    std::string digest;
  };

  // controller.cc
  void Dispatch(Event& event);
  void Persist(std::vector<Record> records, Continuation then);
  void OnPersisted(uint64_t sequence);
  void OnTick();
  void Reply(CallId call, absl::StatusOr<remesh::Reply> reply);
  void Reply(const std::vector<CallId>& calls, const absl::StatusOr<remesh::Reply>& reply);
  void AddNote(std::string line);
  void Warn(std::string line);
  absl::Status CheckMayChange() const;
  void ForgiveOwnPause();

  // controller_restore.cc
  void RestoreState(const std::string& name, const RestoredState& restored);
  void RestoreExecution(const v1::Execution& execution, const Restored& restored);

  // controller_watches.cc
  void OnWatch(const WatchStarted& watch);
  void OnWatchEnded(WatchId watch);
  void Touch(const std::string& name) { touched_.insert(name); }
  void TellWatchers();
  bool TellWatch(WatchId watch, const std::string& name);  // false: the watch has ended

  // controller_enrolment.cc
  void OnRegister(StreamId stream, const v1::Register& registration);
  absl::Status CheckRegister(const v1::Register& registration) const;
  absl::StatusOr<Enrolment> Admit(const v1::Register& registration, std::vector<Record>& records);
  absl::Status CheckUnproven(const v1::Register& registration) const;
  void MakeWayFor(const v1::Register& registration);
  bool CheckPosition(const v1::Register& registration, std::vector<Record>& records);
  absl::Status RaiseEpoch(const v1::Register& registration, std::vector<Record>& records);
  void Attach(StreamId stream, v1::Register registration);
  void AttachParked(StreamId stream, const v1::Register& registration);
  void Unpark(StreamId stream);
  void HearParked(StreamId stream, const std::vector<v1::AttachRequest>& messages);
  std::vector<Record> KeepHosts(const std::set<std::string>& hosts);
  void DropUnprovenHost(const std::string& host);
  absl::StatusOr<remesh::Reply> Answer(const v1::ListWorkersRequest& request) const;
  absl::StatusOr<remesh::Reply> Answer(const v1::ForgetWorkerRequest& request);
  absl::StatusOr<remesh::Reply> Answer(const v1::ResetWorkerRequest& request);
  absl::Status CheckAway(const std::string& host) const;

  // controller_workers.cc
  void OnMessage(StreamId stream, const v1::AttachRequest& message);
  void Greet(const std::string& host, const v1::Register& registration);
  void TellReturned(const std::string& host);
  void OnWorkerEvent(const std::string& host, const v1::AttachRequest& message);
  void OnAttemptEvent(const std::string& host, const v1::AttachRequest& message);
  void OnStateWanted(const std::string& host, const std::string& state);
  void OnManifest(const std::string& host, const v1::StateManifest& manifest);
  void OnStreamEnded(StreamId stream);
  void DropStream(StreamId stream, const absl::Status& status);
  void TellAway(const std::string& host, const std::vector<std::string>& states,
                const absl::Status& why);
  void WorkerAway(const std::string& host, const absl::Status& why);
  void Send(const std::string& host, v1::AttachResponse message);
  void PublishTopology();

  // controller_held.cc
  Verdict JudgeHeld(const std::string& host, const v1::StateManifest& manifest) const;
  void Settle(const std::string& host, const v1::StateManifest& manifest);
  void SettleState(const std::string& state);
  void SettleOwed(const std::string& state);
  void SettleHost(const std::string& host, const v1::Register& registration);
  void SettleAttempt(const std::string& host, const v1::AttemptId& attempt);
  void NoteOwed(const std::string& host, const v1::StateManifest& manifest, const Verdict& verdict);
  void DropHeld(const std::string& host, const ManifestKey& key);
  void DropOwed(const std::string& host, const ManifestKey& key);
  void ForgetNewer(const std::string& host, const ManifestKey& key);
  void OnForgotten(const std::string& host, const v1::Forgotten& forgotten);
  absl::StatusOr<remesh::Reply> Answer(const v1::DiscardShardsRequest& request);

  // controller_states.cc
  void StartCreateState(CallId call, const CreateState& request);
  absl::Status CheckCreateState(const CreateState& request) const;
  absl::Status CheckRoom() const;
  absl::Status CheckHosts(const std::string& host, const HostDevices& devices) const;
  absl::StatusOr<bool> JoinCreate(CallId call, const v1::CreateStateRequest& request,
                                  const std::string& digest);
  void FinishCreateState(StateEntry entry);
  void TellAbsent(const StateEntry& state, const std::string& host);
  void StartDeleteState(CallId call, const v1::DeleteStateRequest& request);
  std::set<StateKey> StatesNamed(const std::string& name) const;
  std::set<std::string> HostsOf(const StateKey& state) const;
  absl::Status StopForDeletion(const StateEntry& state);
  absl::StatusOr<StateEntry*> FindState(std::string_view field, const std::string& name);
  absl::StatusOr<remesh::Reply> Answer(const v1::GetStateRequest& request);
  absl::StatusOr<remesh::Reply> Answer(const v1::ListStatesRequest& request) const;

  // controller_start.cc
  void StartExecution(CallId call, const v1::StartExecutionRequest& request);
  absl::StatusOr<bool> JoinStart(CallId call, const v1::StartExecutionRequest& request);
  absl::Status CheckFree(const StateEntry& state, int64_t expected_generation) const;
  absl::Status CheckReady(const StateEntry& state, const std::set<std::string>& spared) const;
  void OnPlanned(uint64_t id, absl::StatusOr<PlannedMove> move);
  absl::Status CheckMove(const PendingStart& start, const PlannedMove& move);
  void Launch(const PendingStart& start, const PlannedMove& move);

  // controller_executions.cc
  absl::StatusOr<Move*> FindExecution(const std::string& name);
  absl::StatusOr<remesh::Reply> Answer(const v1::GetExecutionRequest& request);
  absl::StatusOr<remesh::Reply> Answer(const v1::ListExecutionsRequest& request) const;
  absl::StatusOr<remesh::Reply> Answer(const v1::CancelExecutionRequest& request);
  absl::StatusOr<remesh::Reply> Answer(const v1::ResolveExecutionRequest& request);
  void AdmitMoves();
  void Apply(const std::string& name, ExecutionActions actions);
  void SaveExecution(const std::string& name, Save what);
  void EndMove(const std::string& name, Save what);
  void AdoptTarget(StateEntry& state, const Move& move);
  void DropOldExecutions();

  const ControllerOptions options_;
  const Random random_;
  uint64_t epoch_;          // of every command; on disk before the first one
  uint64_t highest_epoch_;  // on its way to the disk
  bool leads_ = false;      // the epoch that Start() chose is on disk
  const JournalPast past_;
  std::set<std::string> lost_leaderships_;
  // Hosts that were told of a later journal than this one. From the first one on, this life of the
  // server only answers questions: nothing is decided, nothing written, no command sent.
  std::set<std::string> behind_;
  bool journal_full_ = false;
  Restored restored_;  // until Start()

  WorkerRegistry workers_;
  std::map<std::string, HostEntry>
      hosts_;  // that attached, to earlier leaders with this journal too
  StateRegistry states_;
  DeviceLedger ledger_;
  std::map<std::string, Move> moves_;               // by execution name
  std::map<std::string, std::string> by_age_;       // order key, newest first -> execution name
  std::set<std::string> running_;                   // executions that have not ended
  std::map<std::string, std::string> request_ids_;  // -> execution name
  std::map<uint64_t, PendingStart> starts_;         // by planning id
  std::map<std::string, PendingCreate> creates_;    // by state name
  Tombstones tombstones_;
  struct Owed {
    v1::StateManifest manifest;
    std::string reason;
    bool newer = false;
  };
  std::map<std::pair<ManifestKey, std::string>, Owed> owed_;   // by generation and host
  std::map<StreamId, std::vector<v1::AttachRequest>> parked_;  // until the journal has who they are
  std::map<std::string, std::set<std::string>> wanted_;  // by state: hosts whose trainers asked

  std::map<WatchId, std::string> watches_;
  std::map<std::string, std::set<WatchId>> watchers_;  // by name
  std::set<std::string> touched_;                      // since the event began

  uint64_t next_planning_ = 1;
  uint64_t next_sequence_;
  uint64_t durable_sequence_;
  std::map<uint64_t, Continuation> continuations_;  // by sequence
  Timestamp last_tick_{0};

  Moment now_;   // of the event being handled
  Actions out_;  // of the event being handled
};

}  // namespace remesh
