// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "remesh/v1/worker.grpc.pb.h"

namespace remesh::benchmark {

// What all workers of a fleet have seen since Fleet counted last.
struct FleetCounts {
  std::atomic<int64_t> prepares{0};
  std::atomic<int64_t> prepare_bytes{0};
  std::atomic<int64_t> largest_prepare{0};
  std::atomic<int64_t> commits{0};
  std::atomic<int64_t> aborts{0};
  std::atomic<int64_t> programs{0};  // fetched whole
  std::atomic<int64_t> program_bytes{0};
  std::atomic<int64_t> lost_streams{0};
  std::atomic<int64_t> heartbeats{0};
};

// What one fake worker is, and what it shares with the others of its fleet.
struct FleetHost {
  std::string name;
  int64_t first_device = 0;
  int devices = 8;
  const std::atomic<bool>* fetches_programs = nullptr;  // before it answers Prepare
  FleetCounts* counts = nullptr;
  std::atomic<int64_t>* attached = nullptr;         // workers that have their Welcome
  std::atomic<int64_t>* heartbeat_nanos = nullptr;  // as the server asked last
};

class FleetStream;

// A worker without data: it registers, is alive, says that its shards are sealed, and answers each
// command of a move at once. Its connection is shared with other workers. Thread-safe.
class FleetWorker {
 public:
  FleetWorker(FleetHost host, std::shared_ptr<grpc::Channel> channel);
  ~FleetWorker();

  // Opens a stream and registers on it, unless a stream is open.
  void Attach();
  // If the worker has sent nothing for so long: sends a heartbeat if it is attached, as an agent
  // does, and attaches it if it has no stream.
  void Beat(std::chrono::nanoseconds silence);
  // Closes the stream, for ever.
  void Stop();
  // Whether no stream is open and none will be.
  bool stopped();

 private:
  friend class FleetStream;
  friend class FleetProgram;

  void OnCommand(const v1::AttachResponse& command);
  void OnStreamEnded();

  v1::AttachRequest RegisterMessage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(v1::AttachRequest message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnWelcome(const v1::Welcome& welcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnAssignState(const v1::Assignment& assignment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnPrepare(const v1::Prepare& prepare) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendPrepared(const v1::AttemptId& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnGrant(const v1::Grant& grant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnCommit(const v1::Commit& commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const std::string& state_uid, int64_t generation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FleetHost host_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::WorkerService::Stub> workers_;
  const std::unique_ptr<v1::PlanService::Stub> plans_;

  absl::Mutex mutex_;
  FleetStream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;  // deletes itself
  bool attached_ ABSL_GUARDED_BY(mutex_) = false;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  int fetches_ ABSL_GUARDED_BY(mutex_) = 0;  // programs on their way
  int64_t incarnation_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t progress_ ABSL_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point last_sent_ ABSL_GUARDED_BY(mutex_);
  std::string cluster_uid_ ABSL_GUARDED_BY(mutex_);
  v1::JournalPosition position_ ABSL_GUARDED_BY(mutex_);
  // By uid and generation.
  using Held = std::map<std::pair<std::string, int64_t>, v1::StateManifest>;
  Held held_ ABSL_GUARDED_BY(mutex_);
  // Of the attempt that was prepared last, which is the only one.
  v1::StateManifest target_ ABSL_GUARDED_BY(mutex_);
  int32_t next_window_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace remesh::benchmark
