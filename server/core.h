// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "base/strand.h"
#include "base/ticker.h"
#include "planner/values/topology.h"
#include "server/cache/plan_cache.h"
#include "server/cache/plan_store.h"
#include "server/callers/caller_turns.h"
#include "server/callers/last_references.h"
#include "server/callers/open_calls.h"
#include "server/callers/open_watches.h"
#include "server/callers/sinks.h"
#include "server/callers/turn_lane.h"
#include "server/controller/controller.h"
#include "server/coordination/fences.h"
#include "server/core_observer.h"
#include "server/core_options.h"
#include "server/core_threads.h"
#include "server/journal/journal_backup.h"
#include "server/journal/journal_writer.h"
#include "server/planning/fair_queue.h"
#include "server/planning/move_planner.h"
#include "server/planning/plan_desk.h"
#include "server/planning/precompute.h"
#include "server/questions/live_topology.h"
#include "service/process/heap.h"

namespace remesh::server {

namespace coordination {
class Coordinator;
}

// The running controller: owns its strand, journal, planning threads and clock, and carries out its
// actions. Thread-safe.
class Core {
 public:
  using Options = CoreOptions;

  // Reads the journal. DATA_LOSS (JOURNAL_CORRUPT) when its records make no sense. `observer` must
  // outlive the core.
  static absl::StatusOr<std::unique_ptr<Core>> Start(Options options,
                                                     std::unique_ptr<Journal> journal,
                                                     CoreObserver& observer);
  // REQUIRES: Shutdown() was called, and no sink calls the core any more.
  ~Core();

  using ReplyFn = OpenCalls::ReplyFn;
  // `reply` is called exactly once, on some thread; UNAVAILABLE (SHUTTING_DOWN) after Shutdown().
  // Callers take turns, and after a few calls the strand runs other tasks that have come. So
  // however many calls one caller makes, other callers wait for at most one call of each caller,
  // and workers for a few calls. Calls of one caller keep their order.
  // A call whose `gone` returns true in its turn is not made (CANCELLED); null: it always is.
  using Gone = OpenCalls::Gone;
  void Call(Request request, ReplyFn reply, const std::string& caller = "", Gone gone = nullptr) {
    Call(NewCall(), std::move(request), std::move(reply), caller, std::move(gone));
  }
  // The same, with an id that the caller of this has for EndCall().
  void Call(CallId id, Request request, ReplyFn reply, const std::string& caller, Gone gone);
  CallId NewCall() { return next_id_++; }
  // The caller of an open call has gone: the call ends (CANCELLED) and is dropped. What it asked
  // for goes on. In the turn of `caller`, so after the call. Nothing happens if the call has ended.
  void EndCall(CallId id, const std::string& caller);

  // The stream begins in the turn of `caller`.
  void OpenStream(std::shared_ptr<WorkerSink> sink, const std::string& caller);
  // Calls `handled` once the message has had its effect. With a caller, message and end wait for
  // the caller's turn. The first message of a stream, and an end before it is handled, must have
  // one: otherwise a client that opens and resets streams in a loop starves the others. Later
  // messages must have none.
  // Heartbeats wait, in order with the stream's other messages, for the next message of any stream
  // or the next tick.
  void OnStreamMessage(StreamMessage message, absl::AnyInvocable<void()> handled,
                       const std::optional<std::string>& caller = std::nullopt);
  void OnStreamEnded(StreamId stream, const std::optional<std::string>& caller = std::nullopt);

  // Begin and end of a watch wait for the caller's turn, like its calls and in order with them. A
  // watch whose sink has ended by then does not begin.
  WatchId Watch(const std::string& name, std::shared_ptr<WatchSink> sink,
                const std::string& caller);
  // Gives the place back only when nothing of the watch is left here, so a caller who begins and
  // ends watches in a loop has no more of them waiting than OpenWatches allows. REQUIRES: Watch()
  // was called for the place's caller.
  void EndWatch(WatchId watch, OpenWatches::Place place);

  // As of the last event: see remesh_journal_behind.
  bool journal_behind() const { return journal_behind_; }
  // See remesh_journal_lost.
  bool journal_lost() const { return journal_lost_; }

  // The topology that an empty topology in a request stands for now; may be null.
  std::shared_ptr<const planner::Topology> topology() { return topology_.Get(); }
  PlanCache& plans() { return plans_; }
  OpenWatches& open_watches() { return open_watches_; }
  // The present epochs of worlds, for calls that carry a fence.
  coordination::Fences& fences() { return fences_; }
  // Worlds of processes. It has a thread of its own and waits for nothing else here, except that a
  // world forms only once the controller has written its epoch.
  coordination::Coordinator& coordinator() { return *coordinator_; }
  CoreObserver& observer() { return observer_; }
  Precomputer& precomputer() { return precomputer_; }
  PlanDesk& desk() { return desk_; }
  // See CoreThreads.
  ThreadPool& quick_planners() { return threads_.quick_planners; }
  ThreadPool& planners() { return threads_.planners; }
  ThreadPool& lookups() { return threads_.lookups; }
  ThreadPool& writers() { return threads_.writers; }
  ThreadPool& talkers() { return threads_.talkers; }
  StreamThreads& streamers() { return threads_.streamers; }
  StreamThreads& programs() { return threads_.programs; }

  // See JournalBackups::Take(). Blocks.
  absl::StatusOr<JournalBackup> BackUpJournal(absl::FunctionRef<bool()> wanted) {
    return backups_->Take(wanted);
  }

  // Puts settings in force; see Reconfigure and LiveOptions. UNAVAILABLE when the controller does
  // not answer within a second; the settings may still come into force later. Repeating the call
  // does no harm. Blocks.
  absl::Status SetLive(LiveOptions options, const MemoryTier::Limits& plans);
  // Ends executions (see remesh::Drain): gives running ones `patience` to end by themselves, then
  // fails those that are not yet decided. Returns when no execution runs, or soon after. Blocks
  // unless no execution runs.
  void Drain(std::chrono::nanoseconds patience);

  // Ends every call, stream and watch with UNAVAILABLE and refuses new ones. Returns when all have
  // ended. Idempotent.
  void Shutdown();

 private:
  Core(Options options, CoreObserver& observer);
  absl::Status Restore(std::unique_ptr<Journal> journal);

  template <typename F>
  bool Post(F task) {
    return strand_.Post(std::move(task));
  }
  void Handle(Event event);
  void StartCoordinator(const SaveWorlds& known);
  void OnJournalLost(const absl::Status& why);
  void Perform(Actions actions);
  // Runs the task on the strand: in the caller's turn, or without one in that of workers.
  void PostFor(const std::optional<std::string>& caller, FairQueue::Task task);
  // Sees to it that the strand does not free it.
  void KeepLayout(std::shared_ptr<const PlacedState> placed);
  bool AwaitNoExecution(absl::Duration patience);
  void Do(SendToWorker& action);
  void Do(SendLater& action);
  void Do(CloseStream& action);
  void Do(Persist& action);
  void Do(ReplyTo& action);
  void Do(Notify& action);
  void Do(server::EndWatch& action);
  void Do(StartPlanning& action);
  void OnPlanned(uint64_t id, absl::StatusOr<PlannedExecution> move);
  void Do(ReleasePlan& action);
  void Do(TopologyChanged& action);
  void Do(ExecutionEnded& action);
  void Do(Note& action);
  void Tick();
  void ShowGauges();

  const Options options_;
  CoreObserver& observer_;
  const std::unique_ptr<PlanStore> plan_store_;  // may be null
  PlanCache plans_;
  std::atomic<uint64_t> next_id_{1};

  LiveTopology topology_;
  LastReferences layouts_;  // of large states

  coordination::Fences fences_;
  std::unique_ptr<coordination::Coordinator> coordinator_;
  OpenWatches open_watches_;  // outlives every task that holds a place

  // Used only by tasks of the strand.
  std::unique_ptr<Controller> controller_;
  OpenCalls calls_;
  absl::flat_hash_map<StreamId, std::shared_ptr<WorkerSink>> streams_;
  absl::flat_hash_map<WatchId, std::shared_ptr<WatchSink>> watches_;
  bool shut_down_ = false;
  Timestamp next_gauges_{0};  // not before this

  // As of the last event.
  std::atomic<int64_t> running_ = 0;  // executions
  std::atomic<bool> journal_behind_ = false;
  std::atomic<bool> journal_lost_ = false;

  CoreThreads threads_;
  PlanDesk desk_;
  MovePlanner moves_;
  Precomputer precomputer_;
  Strand strand_;
  CallerTurns callers_;  // with calls, watches and new streams
  TurnLane messages_;    // of streams, and their ends
  TurnLane commands_;    // to streams
  std::unique_ptr<JournalWriter> writer_;
  std::unique_ptr<JournalBackups> backups_;

  service::HeapTrimmer trimmer_;  // used only by ticks
  Ticker ticker_;
};

}  // namespace remesh::server
