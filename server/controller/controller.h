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
#include "server/controller/event.h"
#include "server/controller/execution.h"
#include "server/controller/records.h"
#include "server/controller/state_registry.h"
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

  // controller_restore.cc
  void RestoreState(const std::string& name, const RestoredState& restored);
  void RestoreExecution(const v1::Execution& execution, const Restored& restored);

  // controller_watches.cc
  void OnWatch(const WatchStarted& watch);
  void OnWatchEnded(WatchId watch);
  void Touch(const std::string& name) { touched_.insert(name); }
  void TellWatchers();
  bool TellWatch(WatchId watch, const std::string& name);  // false: the watch has ended

  // controller_workers.cc
  void OnMessage(StreamId stream, const v1::AttachRequest& message);
  void OnRegister(StreamId stream, const v1::Register& registration);
  bool FollowedAnother(const v1::Register& registration) const;
  void RaiseEpoch(StreamId stream, const v1::Register& registration);
  void Unpark(StreamId stream);
  void NoteHost(const v1::Register& registration);
  bool IsStrange(const v1::StateManifest& manifest) const;
  void EndStrangersIfAllKnown();
  void Greet(const std::string& host);
  bool IsLeftover(const StateEntry& state, const std::string& host,
                  const v1::StateManifest& manifest) const;
  void Reconcile(const std::string& host, const v1::StateManifest& manifest);
  void OnWorkerEvent(const std::string& host, const v1::AttachRequest& message);
  void OnStateWanted(const std::string& host, const std::string& state);
  void OnManifestChanged(const std::string& host, const v1::StateManifest& manifest);
  void OnStreamEnded(StreamId stream);
  void DropStream(StreamId stream, const absl::Status& status);
  void WorkerAway(const std::string& host, const absl::Status& why);
  void Send(const std::string& host, v1::AttachResponse message);
  void PublishTopology();
  absl::StatusOr<remesh::Reply> Answer(const v1::ListWorkersRequest& request) const;
  absl::StatusOr<remesh::Reply> Answer(const v1::ForgetWorkerRequest& request);

  // controller_states.cc
  void StartCreateState(CallId call, const CreateState& request);
  absl::Status CheckCreateState(const CreateState& request) const;
  absl::Status CheckHosts(const std::string& host, const HostDevices& devices) const;
  absl::StatusOr<bool> JoinCreate(CallId call, const v1::CreateStateRequest& request,
                                  const std::string& digest);
  void FinishCreateState(StateEntry entry);
  void TellAbsent(const StateEntry& state, const std::string& host);
  void StartDeleteState(CallId call, const v1::DeleteStateRequest& request);
  void TellDeleted(const StateKey& state, std::set<std::string> hosts);
  void Forget(const std::string& host, const StateKey& state);
  void ForgetHeld(const std::string& host, const std::string& name, std::string_view kept_uid);
  void ForgetDeletions(const std::string& host);
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
  bool strangers_;
  Restored restored_;  // until Start()

  WorkerRegistry workers_;
  std::set<std::string> hosts_;  // that ever attached, to earlier leaders with this journal too
  StateRegistry states_;
  DeviceLedger ledger_;
  std::map<std::string, Move> moves_;                  // by execution name
  std::map<std::string, std::string> by_age_;          // order key, newest first -> execution name
  std::set<std::string> running_;                      // executions that have not ended
  std::map<std::string, std::string> request_ids_;     // -> execution name
  std::map<uint64_t, PendingStart> starts_;            // by planning id
  std::map<std::string, PendingCreate> creates_;       // by state name
  std::map<StateKey, std::set<std::string>> deleted_;  // hosts that were away then, and may hold it
  std::map<StreamId, std::vector<v1::AttachRequest>> parked_;  // until a higher epoch is on disk
  std::set<std::string> welcomed_;                       // hosts that this leadership has commanded
  std::map<std::string, std::set<std::string>> wanted_;  // by state: hosts whose trainers asked

  std::map<WatchId, std::string> watches_;
  std::map<std::string, std::set<WatchId>> watchers_;  // by name
  std::set<std::string> touched_;                      // since the event began

  uint64_t next_planning_ = 1;
  uint64_t next_sequence_ = 1;
  std::map<uint64_t, Continuation> continuations_;  // by sequence

  Moment now_;   // of the event being handled
  Actions out_;  // of the event being handled
};

}  // namespace remesh
