// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "remesh/v1/worker.grpc.pb.h"

namespace remesh::server {

// A worker for tests: attaches over a channel, seals the shards that it is assigned, and obeys
// every command at once without moving data. Passes each command to `on_command` first; true means
// that the test has handled the command. Thread-safe.
class ScriptedWorker {
 public:
  using OnCommand = std::function<bool(ScriptedWorker&, const v1::AttachResponse&)>;

  ScriptedWorker(std::shared_ptr<grpc::Channel> channel, v1::Register identity,
                 OnCommand on_command = {});
  // Cancels the stream.
  ~ScriptedWorker();

  void Send(const v1::AttachRequest& message);
  // Breaks the connection off, as if the worker had died.
  void Kill();
  // The number of commands of this kind so far.
  int CommandCount(v1::AttachResponse::CommandCase kind);
  // Waits for the kind's count to reach `count`; false after 10 s.
  bool Await(v1::AttachResponse::CommandCase kind, int count);
  // Waits for the stream to end and returns its status.
  grpc::Status AwaitEnd();
  // Operations in the programs that the worker fetched.
  int64_t operations();

 private:
  void Read();
  void Follow(const v1::AttachResponse& command);
  void FetchProgram(const v1::Prepare& prepare);
  void SendWindowDone(const v1::Grant& grant);

  const std::shared_ptr<grpc::Channel> channel_;
  const v1::Register identity_;
  const OnCommand on_command_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AttachRequest, v1::AttachResponse>> stream_;
  absl::Mutex write_mutex_;

  absl::Mutex mutex_;
  std::map<int, int> counts_ ABSL_GUARDED_BY(mutex_);
  int64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_ ABSL_GUARDED_BY(mutex_);
  int32_t next_window_ = 0;  // used by the reading thread only
  v1::Assignment target_;    // used by the reading thread only: the target of the last Prepare
  std::thread reader_;       // last: it uses all of the above
};

// Host `name` with devices first_device, first_device + 1, ..., as process number `process` of it.
v1::Register WorkerIdentity(const std::string& name, int64_t first_device, int devices,
                            int process = 1);

}  // namespace remesh::server
