// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/planning/stream_threads.h"
#include "service/rpc/catch_faults.h"
#include "service/rpc/error_info.h"

namespace remesh::server {

// A stream whose pieces are made on threads that never wait for its reader: while one piece is
// being written, a thread makes the next piece and is then free until the write is done. So a
// client that does not read holds the memory of two pieces, and of what Fill keeps, but no thread.
// A write that takes a minute ends the stream. Lives until gRPC calls OnDone(), and so does Fill.
template <typename T>
class ChunkStream : public grpc::ServerWriteReactor<T> {
 public:
  // Passes the next pieces to emit(piece) until it returns false. After that, Fill is called again
  // later, on any thread, to continue after that piece; its status is ignored. When Fill returns
  // and emit() has not returned false, the stream ends with the status of Fill. Fill never runs
  // twice at once, and is not called again once the stream has ended, as when the client hangs up.
  using Emit = absl::FunctionRef<bool(T piece)>;
  using Fill = absl::AnyInvocable<absl::Status(Emit emit)>;

  static ChunkStream* Start(StreamThreads& threads, grpc::CallbackServerContext* context,
                            std::string caller, Fill fill) {
    std::shared_ptr<ChunkStream> stream(
        new ChunkStream(threads, context, std::move(caller), std::move(fill)));
    stream->self_ = stream;
    // A stream that ends while it waits lives no longer than its call.
    const bool entered =
        threads.Enter(stream->caller_, stream.get(), [weak = std::weak_ptr(stream)] {
          const std::shared_ptr<ChunkStream> waits = weak.lock();
          return waits != nullptr && waits->Begin();
        });
    if (!entered) stream->EndFill(NotTaken(threads.pool()));
    return stream.get();
  }

  void OnWriteDone(bool ok) override {
    absl::ReleasableMutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) Break();
    Proceed(lock);
  }

  void OnCancel() override {
    absl::ReleasableMutexLock lock(&mutex_);
    Break();
    Proceed(lock);
  }

  void OnDone() override {
    const std::shared_ptr<ChunkStream> self = std::move(self_);  // may be the last owner
    fill_ = nullptr;  // what it refers to need not outlive the call
    bool begun;
    {
      absl::MutexLock lock(&mutex_);
      begun = begun_;
    }
    begun ? threads_.Leave(caller_) : threads_.Forget(caller_, this);
  }

 private:
  // After so many pieces in one go, other streams get their turn.
  static constexpr int kPiecesInTurn = 16;
  static constexpr absl::Duration kLookAfter = absl::Seconds(30);

  // Ends the fill even if the pool drops the task that holds it.
  struct Turn {
    ~Turn() {
      if (stream != nullptr) stream->EndFill(ShuttingDown());
    }
    std::shared_ptr<ChunkStream> stream;
  };

  ChunkStream(StreamThreads& threads, grpc::CallbackServerContext* context, std::string caller,
              Fill fill)
      : threads_(threads), context_(context), caller_(std::move(caller)), fill_(std::move(fill)) {}

  bool Begin() {
    absl::ReleasableMutexLock lock(&mutex_);
    if (end_) return false;
    begun_ = true;
    Proceed(lock);
    return true;
  }

  void PostFill() {
    const auto turn = std::make_shared<Turn>(self_);
    const bool posted = threads_.pool().Post(
        {.caller = caller_}, [turn] { std::exchange(turn->stream, nullptr)->FillSome(); });
    if (!posted) std::exchange(turn->stream, nullptr)->EndFill(NotTaken(threads_.pool()));
  }

  void FillSome() {
    const bool ended = [&] {
      absl::MutexLock lock(&mutex_);
      return end_.has_value();
    }();
    if (ended) return EndFill(std::nullopt);  // while it waited for a thread
    int made = 0;
    bool stopped = false;
    const auto emit = [&](T piece) {
      stopped = !Take(std::move(piece)) || ++made == kPiecesInTurn;
      return !stopped;
    };
    const absl::Status end = service::CatchFaults([&] { return fill_(emit); });
    EndFill(stopped ? std::nullopt : std::optional(end));
  }

  // False: the piece waits until the write of the one before is done, or the stream has ended.
  bool Take(T piece) {
    absl::ReleasableMutexLock lock(&mutex_);
    if (end_) return false;
    next_ = std::move(piece);
    if (writing_) return false;
    Proceed(lock);
    return true;
  }

  void EndFill(std::optional<absl::Status> end) {
    absl::ReleasableMutexLock lock(&mutex_);
    filling_ = false;
    if (!end_) end_ = std::move(end);
    if (writing_) WatchWrite();
    Proceed(lock);
  }

  void Break() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    next_.reset();
    if (!end_) end_ = absl::CancelledError("the caller hung up");
  }

  // Ends the stream if the present write is still under way at the second look after this call. One
  // look does not suffice, because this process itself may have been stopped in between.
  void WatchWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(watched_, true)) return;
    if (std::exchange(looked_at_, writes_) != writes_) looks_ = 0;
    threads_.After(kLookAfter, [weak = std::weak_ptr(self_)] {
      if (const std::shared_ptr<ChunkStream> stream = weak.lock()) stream->LookAtWrite();
    });
  }

  void LookAtWrite() {
    absl::MutexLock lock(&mutex_);
    watched_ = false;
    if (!writing_) return;  // the context may be gone
    if (looked_at_ != writes_ || ++looks_ < 2) return WatchWrite();
    context_->TryCancel();
  }

  // Starts a write, a fill or the end of the stream, if possible now. Releases the lock first,
  // because gRPC may call back at once.
  void Proceed(absl::ReleasableMutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const bool write = !writing_ && next_.has_value();
    if (write) {
      writing_ = true;
      ++writes_;
      current_ = *std::exchange(next_, std::nullopt);
    }
    const bool fill = begun_ && !filling_ && !end_ && !next_;
    filling_ = filling_ || fill;
    const bool finish = !writing_ && !filling_ && end_ && !finished_;
    finished_ = finished_ || finish;
    const grpc::Status end = finish ? service::StatusToGrpc(*end_) : grpc::Status::OK;
    lock.Release();
    if (write) this->StartWrite(&current_);
    if (fill) PostFill();
    if (finish) this->Finish(end);
  }

  StreamThreads& threads_;
  grpc::CallbackServerContext* const context_;
  const std::string caller_;
  Fill fill_;  // used only by the thread that fills
  std::shared_ptr<ChunkStream> self_;
  T current_;  // belongs to the write under way
  absl::Mutex mutex_;
  std::optional<T> next_ ABSL_GUARDED_BY(mutex_);  // waits for the write under way
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool filling_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool watched_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t writes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t looked_at_ ABSL_GUARDED_BY(mutex_) = 0;  // the watched write
  int looks_ ABSL_GUARDED_BY(mutex_) = 0;          // at that write
};

}  // namespace remesh::server
