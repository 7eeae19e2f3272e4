// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/synchronization/mutex.h"
#include "server/coordination/coordinator.h"
#include "server/planning/thread_pool.h"

namespace remesh::server {

// A Join stream: a member's session. Its messages are v1::WorldEvent in bytes, for what all members
// of a world are told is in memory once. What is large is serialized on threads of `pool`, in the turn
// of `turn`. A member that does not read loses its stream. Lives until gRPC calls OnDone().
class MemberStream : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                     public coordination::MemberSink {
 public:
  static MemberStream* Start(coordination::Coordinator& coordinator, ThreadPool& pool,
                             std::string turn, const v1::JoinRequest& request);

  void SendFormed(std::shared_ptr<const coordination::FormedWorld> world, int rank) override;
  void Send(v1::WorldEvent event) override;
  void End(const absl::Status& status) override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  struct Formed {
    std::shared_ptr<const coordination::FormedWorld> world;
    int rank = 0;
  };
  using Message = std::variant<v1::WorldEvent, Formed>;

  MemberStream(coordination::Coordinator& coordinator, ThreadPool& pool, std::string turn)
      : coordinator_(coordinator),
        pool_(pool),
        turn_(std::move(turn)),
        session_(coordinator.NewId()) {}

  void Push(Message message);
  void Break();
  void Proceed(absl::ReleasableMutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void WriteFormed(const Formed& formed);

  coordination::Coordinator& coordinator_;
  ThreadPool& pool_;
  const std::string turn_;
  const coordination::SessionId session_;
  std::shared_ptr<MemberStream> self_;
  grpc::ByteBuffer current_;  // belongs to the write under way
  absl::Mutex mutex_;
  std::deque<Message> queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;  // or WriteFormed() waits for its thread
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace remesh::server
