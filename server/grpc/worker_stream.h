// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "remesh/v1/worker.pb.h"
#include "server/core.h"
#include "server/grpc/write_budget.h"
#include "service/rpc/handler_interceptors.h"

namespace remesh::server {

// One worker's Attach stream. Until the core has handled its first message, the stream waits in the
// caller's turn, and reads nothing more. Then it passes messages to the core as they come. Commands
// wait in a bounded queue, and one is being written. Those that are made later (SendLater) are made
// when all before them are written and the budget that all streams share has room. Lives until gRPC calls OnDone(), which is not
// before the turn in which the stream begins: until then, a stream that its client has reset counts
// as unfinished (service/front/unfinished_calls.h).
class WorkerStream : public grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>,
                     public WorkerSink {
 public:
  // Called when a host registers: returns whether the peer may be that host, and whether the peer's
  // certificate proves it or nothing does.
  enum class Proof { kNone, kCertificate };
  using Admit = absl::AnyInvocable<absl::StatusOr<Proof>(const std::string& host)>;
  static WorkerStream* Start(Core& core, std::string caller, std::shared_ptr<WriteBudget> budget,
                             Admit admit, service::HandlerInterceptors interceptors);

  bool Begin(StreamId stream) override;
  void Send(v1::AttachResponse message) override;
  void SendLater(LaterCommands commands) override;
  void Close(const absl::Status& status) override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  using Command = std::variant<v1::AttachResponse, LaterCommands>;

  WorkerStream(Core& core, std::string caller, std::shared_ptr<WriteBudget> budget, Admit admit,
               service::HandlerInterceptors interceptors)
      : core_(core),
        caller_(std::move(caller)),
        budget_(std::move(budget)),
        admit_(std::move(admit)),
        interceptors_(std::move(interceptors)) {}

  // Reads the next message, unless the stream has begun to end.
  void ReadNext();
  // Whether the stream has begun to end.
  bool ending();
  // Ends the stream for the core, too.
  void Leave(const absl::Status& status);
  void EndWith(const absl::Status& status);
  // Reports to the core that the stream has ended: once, and only if it has begun.
  void ReportEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts a command of so many bytes into the queue, or ends the stream if that is full.
  void Enqueue(Command command, size_t bytes);
  // Asks for a share to make the first commands of the queue.
  void AskForShare(absl::ReleasableMutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // Has the share: makes the commands.
  void OnShare();
  // The share to return, if the commands that it was for are written or no longer needed; 0: none.
  size_t TakeSpentShare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Proceed(absl::ReleasableMutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  Core& core_;
  const std::string caller_;
  const std::shared_ptr<WriteBudget> budget_;
  Admit admit_;
  service::HandlerInterceptors interceptors_;
  StreamId id_ = 0;  // set when the stream begins, before anything is read
  std::shared_ptr<WorkerStream> self_;
  v1::AttachRequest incoming_;     // belongs to the read under way
  v1::AttachResponse outgoing_;    // belongs to the write under way
  std::atomic<int> unhandled_{0};  // messages that the core has not handled yet
  std::atomic<size_t> unhandled_bytes_{0};
  std::atomic<bool> registered_{false};  // the core has handled the first message

  absl::Mutex mutex_;
  std::deque<Command> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;  // and its end is not reported to the core
  // Why the stream may not finish yet: its turn has not come, or a read is being started.
  int holds_ ABSL_GUARDED_BY(mutex_) = 1;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool making_ ABSL_GUARDED_BY(mutex_) = false;   // asked for a share, or makes commands
  size_t share_ ABSL_GUARDED_BY(mutex_) = 0;      // of the budget
  size_t made_left_ ABSL_GUARDED_BY(mutex_) = 0;  // commands of the share in the queue
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace remesh::server
