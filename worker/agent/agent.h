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
#include "worker/local/local_calls.h"
#include "worker/local/state_buffers.h"
#include "worker/metrics.h"
#include "worker/store/buffer_store.h"
#include "worker/store/files_queue.h"

namespace remesh::worker {

// Which program an attempt runs.
struct ProgramRequest {
  std::string plan;
  std::string host;
  std::string fingerprint;
  int32_t windows = 0;
  AttemptDevices devices;
};

// Turns the planner's commands into work on the store and the data thread, and
// their outcomes into answers. Everything runs on one strand; gRPC stays outside. Survives the
// planner: attempts go on while it is away, and are told of again when it is back.
// One for each command and for each action of an attempt: it has more than 25 methods and
// more than 12 fields.
class Agent {
 public:
  using ProgramDone = absl::AnyInvocable<void(absl::StatusOr<Program>)>;
  // How it reaches the rest of the world. Called on the strand; none may block.
  struct Ports {
    absl::AnyInvocable<void(const v1::AttachRequest&)> say;    // dropped while not attached
    absl::AnyInvocable<void(const absl::Status&)> disconnect;  // why it takes no more commands
    absl::AnyInvocable<void(const v1::Welcome&)> welcomed;
    // A device is in a state of error, which ends with the process. Buffers outlive that.
    absl::AnyInvocable<void(const absl::Status&)> unusable;
    absl::AnyInvocable<void(ProgramRequest, ProgramDone)> fetch;  // answers on any thread
  };
  struct Options {
    v1::Register identity;  // what does not change while the process lives
    AgentMemory memory;
    Mover::Options mover;
  };

  // Everything but `options` and `ports` must outlive it; `data` may be destroyed first. `files` is
  // where memory is reserved, which takes time. Call the methods below on `strand`.
  Agent(Options options, Ports ports, Strand* strand, Strand* files, BufferStore* store,
        DataThread* data, WorkerMetrics* metrics);

  // What to say first on a new stream.
  v1::Register Attaching();
  // Carries out a command. Not one of another cluster's planner or of a lower epoch than seen
  // before, and not when what must be on disk first cannot be: then no more is carried out until
  // the next Attaching().
  void Command(const v1::AttachResponse& response);

  // The worker is to end: it refuses new attempts (WORKER_STOPS); when `at_once`, it says so of those
  // that it is in, for the planner to end them.
  void Drain(bool at_once);
  // Takes part in an attempt.
  bool busy() const { return !attempts_.empty() || !waiting_.empty(); }
  // The worker stops: nobody waits any longer.
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
    Program program;
    PhaseTimer phase_timer;
    bool rests = false;                          // what it has exchanged by stays if it ends well
    std::shared_ptr<FilesQueue::Job> reserving;  // memory; or null
    bool stop_then = false;                      // once it is not reserving any more
  };

  absl::Status Admit(const v1::AttachResponse& response);
  absl::Status CheckEpoch(uint64_t epoch) const;
  absl::Status CheckCluster(const std::string& cluster_uid) const;
  void Execute(const v1::AttachResponse& response);
  // Carries out nothing more of this stream.
  void Refuse(const absl::Status& why);
  void Prepare(v1::Prepare command);
  void Commit(const v1::Commit& command);
  // `kept`: communicators; empty: none.
  void SayCommitted(const v1::AttemptId& id, const std::string& state, int64_t generation,
                    const std::string& kept = "");
  void Retire(const v1::Retire& command);
  void Forget(const v1::ForgetState& command);
  // Says Forgotten of what was to be forgotten and is in nobody's hands any more.
  void FinishForgetting();
  void Abort(const v1::Abort& command);
  void Welcome(const v1::Welcome& command);
  bool Moving(const std::string& state) const;
  bool OnlyStops(const std::string& state) const;
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
  void Do(const std::string& key, Entry& entry, const Attempt::StopMoving& action);
  void Do(const std::string& key, Entry& entry, const Attempt::DropTarget& action);
  void Do(const std::string& key, Entry& entry, const Attempt::Say& action);
  absl::StatusOr<Generation> BeginReserving(Entry& entry);
  void Reserved(const std::string& key, Generation generation, const absl::Status& filled);
  // What it takes to open an attempt, made on `files_`: it reserves memory and binds the program.
  struct Making;
  absl::Status Make(Making& making, const std::atomic<bool>& cancelled) const;
  absl::StatusOr<std::shared_ptr<std::byte>> AllocateOn(int local, int64_t bytes,
                                                        const std::atomic<bool>& cancelled) const;
  void Made(const std::string& key, Making& making);
  absl::StatusOr<std::vector<Peer>> PeersOf(const v1::Prepare& prepare) const;
  absl::Status SetTargetPhase(const Entry& entry, v1::ShardPhase phase);
  void Stop(const std::string& key, Entry& entry);
  Mover::Events MakeEvents(const std::string& key, bool encrypted);
  // Runs event(attempt) on the strand, if the attempt is still known then. Thread-safe.
  void PostEvent(const std::string& key, absl::AnyInvocable<Attempt::Actions(Entry&)> event);
  void Fail(const v1::AttemptId& id, const absl::Status& status);
  // What the attempt wrote, if it is here; of any state of the name if `state_uid` is empty.
  const Generation* Written(const v1::AttemptId& id, const std::string& state,
                            const std::string& state_uid, int64_t generation) const;

  Options options_;
  Ports ports_;
  Strand* const strand_;
  FilesQueue files_;
  BufferStore* const store_;
  DataThread* const data_;
  WorkerMetrics* const metrics_;
  int64_t incarnation_ = 0;  // of this process
  bool draining_ = false;
  bool deaf_ = false;      // to this stream's planner
  AssignmentParts parts_;  // of this stream
  std::map<std::string, Entry> attempts_;
  std::vector<v1::Prepare> waiting_;         // for an attempt of their state that stops
  std::vector<v1::ForgetState> forgetting_;  // not said Forgotten yet
  StateBuffers buffers_;
  LocalCalls calls_;
};

}  // namespace remesh::worker
