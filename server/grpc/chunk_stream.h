// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/core.h"
#include "service/error_info.h"

namespace remesh::server {

// A stream that one thread fills at the reader's pace. Only that thread may call Write() and End().
// End() must be called last and once; it deletes the object.
template <typename T>
class ChunkStream : public grpc::ServerWriteReactor<T> {
 public:
  explicit ChunkStream(grpc::CallbackServerContext* context) : context_(context) {}

  // Waits for the previous write. False when no one reads any more.
  bool Write(T chunk) {
    {
      absl::MutexLock lock(&mutex_);
      if (!AwaitIdle(absl::Minutes(1))) context_->TryCancel();
      if (broken_ || writing_) return false;
      writing_ = true;
    }
    chunk_ = std::move(chunk);
    this->StartWrite(&chunk_);
    return true;
  }

  // Whether no one reads any more.
  bool gone() {
    absl::MutexLock lock(&mutex_);
    return broken_;
  }

  void End(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (!AwaitIdle(absl::Minutes(1))) context_->TryCancel();
      AwaitIdle(absl::InfiniteDuration());
    }
    this->Finish(service::StatusToGrpc(status));
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    broken_ = broken_ || !ok;
  }

  void OnCancel() override {
    absl::MutexLock lock(&mutex_);
    broken_ = true;
  }

  void OnDone() override { delete this; }

 private:
  bool AwaitIdle(absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !writing_; };
    return mutex_.AwaitWithTimeout(absl::Condition(&idle), timeout);
  }

  grpc::CallbackServerContext* const context_;
  T chunk_;  // belongs to the write under way
  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
};

// The filling thread's handle to a stream; ends the stream with UNAVAILABLE when dropped.
template <typename T>
class ChunkWriter {
 public:
  explicit ChunkWriter(ChunkStream<T>* stream) : stream_(stream) {}
  ChunkWriter(ChunkWriter&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  ChunkWriter& operator=(ChunkWriter&&) = delete;
  ~ChunkWriter() {
    if (stream_ != nullptr) End(ShuttingDown());
  }

  bool Write(T chunk) { return stream_->Write(std::move(chunk)); }
  bool gone() { return stream_->gone(); }
  void End(const absl::Status& status) { std::exchange(stream_, nullptr)->End(status); }

 private:
  ChunkStream<T>* stream_;
};

}  // namespace remesh::server
