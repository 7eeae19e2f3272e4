// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "remesh/v1/worker.pb.h"
#include "server/core.h"

namespace remesh::server {

// One worker's Attach stream. Passes messages to the core as they come; commands wait in a bounded
// queue, and one is being written. Lives until gRPC calls OnDone().
class WorkerStream : public grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>,
                     public WorkerSink {
 public:
  // Called when a host registers: returns whether the peer may be that host, and whether the peer's
  // certificate proves it or nothing does.
  enum class Proof { kNone, kCertificate };
  using Admit = absl::AnyInvocable<absl::StatusOr<Proof>(const std::string& host)>;
  static WorkerStream* Start(Core& core, Admit admit);

  void Send(v1::AttachResponse message) override;
  void Close(const absl::Status& status) override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  WorkerStream(Core& core, Admit admit) : core_(core), admit_(std::move(admit)) {}

  // Whether the stream has begun to end.
  bool ending();
  void Refuse(const absl::Status& status);
  void EndWith(const absl::Status& status);
  void Proceed(absl::ReleasableMutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  Core& core_;
  Admit admit_;
  StreamId id_ = 0;
  std::shared_ptr<WorkerStream> self_;
  v1::AttachRequest incoming_;     // belongs to the read under way
  v1::AttachResponse outgoing_;    // belongs to the write under way
  std::atomic<int> unhandled_{0};  // messages that the core has not handled yet
  std::atomic<size_t> unhandled_bytes_{0};

  absl::Mutex mutex_;
  std::deque<v1::AttachResponse> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace remesh::server
