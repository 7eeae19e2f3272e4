// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "server/callers/open_watches.h"
#include "server/core.h"
#include "service/rpc/error_info.h"

namespace remesh::server {

// A stream that sends the newest value of one resource: during a write, later values replace each
// other. Values are written on Core::writers(). Lives until gRPC calls OnDone().
template <typename T>
class WatchStream : public grpc::ServerWriteReactor<T>, public WatchSink {
 public:
  static WatchStream* Start(Core& core, OpenWatches::Place place, const std::string& name) {
    std::shared_ptr<WatchStream> stream(new WatchStream(core, std::move(place)));
    stream->self_ = stream;
    stream->watch_ = core.Watch(name, stream, stream->place_.caller());
    return stream.get();
  }

  void Offer(std::shared_ptr<const Reply> value) override {
    absl::ReleasableMutexLock lock(&mutex_);
    if (end_ || finished_) return;
    if (std::holds_alternative<T>(*value)) {
      next_ = std::move(value);
    } else {
      end_ = MakeError(absl::StatusCode::kInternal, "the watched resource is of another kind",
                       {.reason = "WRONG_KIND", .metadata = {}});
    }
    Proceed(lock);
  }

  void End(const absl::Status& status) override {
    absl::ReleasableMutexLock lock(&mutex_);
    if (!end_) end_ = status;
    Proceed(lock);
  }

  bool Ended() override {
    absl::MutexLock lock(&mutex_);
    return end_.has_value();
  }

  void OnWriteDone(bool ok) override {
    absl::ReleasableMutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) Drop();
    Proceed(lock);
  }

  void OnCancel() override {
    absl::ReleasableMutexLock lock(&mutex_);
    Drop();
    Proceed(lock);
  }

  void OnDone() override {
    core_.EndWatch(watch_, std::move(place_));
    self_ = nullptr;  // may be the last owner
  }

 private:
  WatchStream(Core& core, OpenWatches::Place place) : core_(core), place_(std::move(place)) {}

  void Drop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    next_ = nullptr;
    if (!end_) end_ = absl::CancelledError("the caller hung up");
  }

  // Starts the next operation if none is running.
  void Proceed(absl::ReleasableMutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (writing_ || finished_) return;
    if (next_ != nullptr) {
      writing_ = true;
      ThreadPool& pool = core_.writers();
      if (pool.Post({.caller = place_.caller()}, [stream = self_] { stream->Write(); })) return;
      writing_ = false;
      next_ = nullptr;
      if (!end_) end_ = NotTaken(pool);
    }
    if (!end_) return;
    finished_ = true;
    const grpc::Status status = service::StatusToGrpc(*end_);
    lock.Release();  // gRPC may call back at once
    this->Finish(status);
  }

  // Writes the newest value, unless the caller has hung up.
  void Write() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    absl::ReleasableMutexLock lock(&mutex_);
    current_ = std::exchange(next_, nullptr);
    writing_ = current_ != nullptr;
    if (!writing_) return Proceed(lock);
    lock.Release();  // gRPC may call back at once
    this->StartWrite(&std::get<T>(*current_));
  }

  Core& core_;
  OpenWatches::Place place_;
  WatchId watch_ = 0;
  std::shared_ptr<WatchStream> self_;
  std::shared_ptr<const Reply> current_;  // belongs to the write under way
  absl::Mutex mutex_;
  std::shared_ptr<const Reply> next_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;  // or Write() waits for its thread
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace remesh::server
