// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/strand.h"
#include "remesh/v1/worker.pb.h"
#include "worker/agent/agent_memory.h"
#include "worker/agent/assignment_parts.h"
#include "worker/agent/phase_timer.h"
#include "worker/execution/attempt.h"
#include "worker/execution/data_thread.h"
#include "worker/execution/program.h"
#include "worker/files/files_queue.h"
#include "worker/local/host_facts.h"
#include "worker/local/local_calls.h"
#include "worker/local/state_buffers.h"
#include "worker/metrics.h"
#include "worker/store/buffer_store.h"
#include "worker/store/modify_watch.h"

namespace remesh::worker {

// A request for the program that an attempt runs.
struct ProgramRequest {
  PlanId plan;
  std::string host;
  AttemptDevices devices;
};

// Turns the planner's commands into work on the store and the data thread, and the outcomes into
// answers. Everything runs on one strand; gRPC stays outside. The agent survives the planner:
// attempts go on while the planner is away, and the agent reports them when it is back.
class Agent {
 public:
  using ProgramDone = absl::AnyInvocable<void(absl::StatusOr<Program>)>;
  // The agent's ways to the outside. Called on the strand; none may block.
  struct Ports {
    absl::AnyInvocable<void(const v1::AttachRequest&)> send;  // dropped while not attached
    // Gets the reason why the agent takes no more commands.
    absl::AnyInvocable<void(const absl::Status&)> disconnect;
    absl::AnyInvocable<void(const v1::Welcome&)> welcomed;
    // A device is in a state of error, which ends only with the process. Buffers outlive the
    // process.
    absl::AnyInvocable<void(const absl::Status&)> unusable;
    absl::AnyInvocable<void(ProgramRequest, ProgramDone)> fetch;  // answers on any thread
  };
  struct Options {
    v1::Register identity;  // what does not change while the process lives
    AgentMemory memory;
    Mover::Options mover;
    AdvertisedServer server;
  };

  // `strand`, `files`, `loans`, `store` and `metrics` must outlive the agent; `data` may be
  // destroyed first. `files` reserves memory, and `loans` opens and closes what trainers lend,
  // because that takes time; both must outlive `store` and `data` too. Call the methods below on
  // `strand`.
  Agent(Options options, Ports ports, Strand* strand, Strand* files, Strand* loans,
        BufferStore* store, DataThread* data, WorkerMetrics* metrics);

  // Returns the first message for a new stream.
  v1::Register Attaching();
  // Carries out a command. Refuses it if it comes from another cluster's planner or has a lower
  // epoch than seen before, or if what must be on disk first cannot be written. Then no more
  // commands are carried out until the next Attaching().
  void Command(const v1::AttachResponse& response);
  // The stream has ended.
  void Disconnected() { host_.OnDisconnected(); }

  // The worker is about to end: refuses new attempts (WORKER_STOPS). With `at_once`, fails the
  // attempts under way in the same way, so that the planner ends them.
  void Drain(bool at_once);
  // Whether the agent takes part in an attempt.
  bool busy() const { return !attempts_.empty() || !waiting_.empty(); }
  // The worker stops: ends calls that wait, and cancels what is being reserved.
  void Close();

  StateBuffers& buffers() { return buffers_; }
  LocalCalls& calls() { return calls_; }

 private:
  struct Entry {
    explicit Entry(v1::Prepare prepare) : attempt(std::move(prepare)) {}
    Attempt attempt;
    AttemptDevices devices;
    std::shared_ptr<const MappedShards> source;
    std::shared_ptr<const MappedShards> target;
    std::shared_ptr<ModifyWatch> modify_watch = std::make_shared<ModifyWatch>();  // of both
    Program program;
    PhaseTimer phase_timer;
    bool rests = false;                          // its connections stay if it ends well
    std::shared_ptr<FilesQueue::Job> reserving;  // the job that reserves memory; or null
    bool stop_then = false;                      // stop once it is not reserving any more
  };

  absl::Status Admit(const v1::AttachResponse& response);
  absl::Status CheckEpoch(uint64_t epoch) const;
  absl::Status CheckCluster(const std::string& cluster_uid) const;
  void Execute(const v1::AttachResponse& response);
  // Carries out no more commands of this stream.
  void Refuse(const absl::Status& why);
  void AssignState(v1::Assignment assignment);
  void Prepare(v1::Prepare command);
  void Commit(const v1::Commit& command);
  // `kept`: name of the communicators that are kept; empty: none.
  void SendCommitted(const v1::AttemptId& id, const std::string& state, int64_t generation,
                     const std::string& kept = "");
  void Retire(const v1::Retire& command);
  void Forget(const v1::ForgetState& command);
  // Answers Forgotten for the states that are to be forgotten and that nothing uses any more.
  void FinishForgetting();
  void Abort(const v1::Abort& command);
  void Welcome(const v1::Welcome& command);
  std::string MovedBy(const std::string& state) const;
  bool OnlyEnds(const std::string& state) const;
  void PrepareWaiting();
  void Begin(v1::Prepare command);
  Entry* Find(const v1::AttemptId& id);

  // attempt_actions.cc: carries out what an attempt asks for.
  void Run(const std::string& key, Attempt::Actions actions);
  void Do(const std::string& key, Entry& entry, const Attempt::Reserve& action);
  void Do(const std::string& key, Entry& entry, const Attempt::FetchProgram& action);
  void Do(const std::string& key, Entry& entry, const Attempt::Open& action);
  void Do(const std::string& key, Entry& entry, const Attempt::GrantWindows& action);
  void Do(const std::string& key, Entry& entry, const Attempt::CheckSources& action);
  void Do(const std::string& key, Entry& entry, const Attempt::MarkVerified& action);
  void Do(const std::string& key, Entry& entry, const Attempt::MarkReady& action);
  void Do(const std::string& key, Entry& entry, const Attempt::LookAgain& action);
  void Do(const std::string& key, Entry& entry, const Attempt::AskWaits& action);
  void Do(const std::string& key, Entry& entry, const Attempt::StopMoving& action);
  void Do(const std::string& key, Entry& entry, const Attempt::DropTarget& action);
  void Do(const std::string& key, Entry& entry, const Attempt::Send& action);
  absl::StatusOr<Generation> BeginReserving(Entry& entry);
  absl::Status MapSource(Entry& entry, const Generation& source);
  absl::Status TakeSource(Entry& entry, const Generation& source);
  void Reserved(const std::string& key, Generation generation, const absl::Status& filled);
  // The parts from which an attempt is opened. They are made on `files_`, because that reserves
  // memory and binds the program.
  struct Making;
  absl::Status Make(Making& making, const std::atomic<bool>& cancelled) const;
  absl::Status MakeRoom(MoveList& moves, const std::atomic<bool>& cancelled) const;
  absl::StatusOr<std::shared_ptr<std::byte>> AllocateOn(int local, int64_t bytes,
                                                        const std::atomic<bool>& cancelled) const;
  void Made(const std::string& key, Making& making);
  absl::Status SetTargetPhase(const Entry& entry, v1::ShardPhase phase);
  void Stop(const std::string& key, Entry& entry);
  void NoteModified(const Entry& entry);
  void NoteModified(const std::string& state, int64_t generation);
  Mover::Events MakeEvents(const std::string& key, bool encrypted);
  // Runs event(attempt) on the strand, if the attempt is still known then. Thread-safe.
  void PostEvent(const std::string& key, absl::AnyInvocable<Attempt::Actions(Entry&)> event);
  void Fail(const v1::AttemptId& id, const absl::Status& status);
  // The generation that the attempt wrote, if it is here. An empty `state_uid` matches any state of
  // the name.
  const Generation* Written(const v1::AttemptId& id, const std::string& state,
                            const std::string& state_uid, int64_t generation) const;

  Options options_;
  Ports ports_;
  Strand* const strand_;
  FilesQueue files_;
  FilesQueue loans_;
  BufferStore* const store_;
  DataThread* const data_;
  WorkerMetrics* const metrics_;
  int64_t incarnation_ = 0;  // of this process
  bool draining_ = false;
  bool deaf_ = false;      // to this stream's commands
  AssignmentParts parts_;  // of this stream
  std::map<std::string, Entry> attempts_;
  std::vector<v1::Prepare> waiting_;         // for another attempt of their state to stop
  std::vector<v1::ForgetState> forgetting_;  // not answered with Forgotten yet
  StateBuffers buffers_;
  HostFacts host_;
  LocalCalls calls_;
};

}  // namespace remesh::worker
