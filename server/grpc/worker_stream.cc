// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/worker_stream.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

constexpr size_t kQueuedMax = 16384;
constexpr size_t kQueuedBytesMax = size_t{1} << 30;
constexpr int kUnhandledMax = 10000;
constexpr size_t kUnhandledBytesMax = size_t{256} << 20;  // one message alone may be larger

absl::Status WorkerTooSlow() {
  return MakeError(absl::StatusCode::kResourceExhausted, "the worker does not read its commands",
                   {.reason = "WORKER_TOO_SLOW", .metadata = {}});
}

absl::Status WorkerTooFast() {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "the worker sends faster than the server can follow",
                   {.reason = "WORKER_TOO_FAST", .metadata = {}});
}

}  // namespace

WorkerStream* WorkerStream::Start(Core& core, std::string caller, Admit admit) {
  std::shared_ptr<WorkerStream> stream(new WorkerStream(core, std::move(caller), std::move(admit)));
  stream->self_ = stream;
  core.OpenStream(stream, stream->caller_);
  return stream.get();
}

bool WorkerStream::Begin(StreamId stream) {
  {
    absl::ReleasableMutexLock lock(&mutex_);
    --holds_;
    begun_ = !end_;
    if (!begun_) {
      Proceed(lock);
      return false;
    }
    id_ = stream;
  }
  ReadNext();
  return true;
}

void WorkerStream::ReadNext() {
  {
    absl::MutexLock lock(&mutex_);
    if (end_) return;
    ++holds_;  // a stream that finishes may be gone at once
  }
  incoming_.Clear();
  StartRead(&incoming_);
  absl::ReleasableMutexLock lock(&mutex_);
  --holds_;
  Proceed(lock);
}

void WorkerStream::Send(v1::AttachResponse message) {
  const size_t bytes = message.ByteSizeLong();
  absl::ReleasableMutexLock lock(&mutex_);
  if (end_) return;
  if (queue_.size() >= kQueuedMax || queued_bytes_ + bytes > kQueuedBytesMax) {
    end_ = WorkerTooSlow();
    queue_.clear();
    TellEnd();  // a worker that does not read may keep the stream open for ever
  } else {
    queued_bytes_ += bytes;
    queue_.push_back(std::move(message));
  }
  Proceed(lock);
}

void WorkerStream::Close(const absl::Status& status) { EndWith(status); }

void WorkerStream::OnReadDone(bool ok) {
  if (!ok) return Leave(absl::OkStatus());
  if (ending()) return;  // what it still says does not count
  const size_t bytes = incoming_.ByteSizeLong();
  const size_t others = unhandled_bytes_.fetch_add(bytes);
  const bool too_many_bytes = others > 0 && others + bytes > kUnhandledBytesMax;
  if (++unhandled_ > kUnhandledMax || too_many_bytes) return Leave(WorkerTooFast());
  StreamMessage said{.stream = id_};
  if (incoming_.has_register_()) {
    const absl::StatusOr<Proof> proof = admit_(incoming_.register_().host());
    if (!proof.ok()) return Leave(proof.status());
    said.vouched = *proof == Proof::kCertificate;
  }
  said.message = std::move(incoming_);
  const bool first = !heard_;
  auto handled = [self = self_, bytes, first] {
    --self->unhandled_;
    self->unhandled_bytes_ -= bytes;
    if (!first) return;
    self->heard_ = true;
    self->ReadNext();
  };
  core_.OnStreamMessage(std::move(said), std::move(handled),
                        first ? std::optional(caller_) : std::nullopt);
  if (!first) ReadNext();
}

bool WorkerStream::ending() {
  absl::MutexLock lock(&mutex_);
  return end_.has_value();
}

void WorkerStream::Leave(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    TellEnd();
  }
  EndWith(status);
}

void WorkerStream::TellEnd() {
  if (!std::exchange(begun_, false)) return;
  core_.OnStreamEnded(id_, heard_ ? std::nullopt : std::optional(caller_));
}

void WorkerStream::OnWriteDone(bool ok) {
  absl::ReleasableMutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) {
    queue_.clear();
    if (!end_) end_ = absl::CancelledError("the worker hung up");
  }
  Proceed(lock);
}

void WorkerStream::OnCancel() { Leave(absl::CancelledError("the worker hung up")); }

void WorkerStream::OnDone() {
  Leave(absl::OkStatus());
  self_ = nullptr;  // may be the last owner
}

// Drops the commands that wait. They would stay in memory for as long as the worker does not read,
// and nobody needs them: the next stream begins with everything that the worker must know.
void WorkerStream::EndWith(const absl::Status& status) {
  std::deque<v1::AttachResponse> dropped;  // destroyed without the lock: may be large
  absl::ReleasableMutexLock lock(&mutex_);
  if (!end_) end_ = status;
  dropped.swap(queue_);
  Proceed(lock);
}

// Starts the next operation if none is running. Releases the lock first, because gRPC may call back
// at once.
void WorkerStream::Proceed(absl::ReleasableMutexLock& lock) {
  if (writing_ || finished_) return;
  if (!queue_.empty()) {
    writing_ = true;
    outgoing_ = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= std::min(queued_bytes_, outgoing_.ByteSizeLong());
    lock.Release();
    StartWrite(&outgoing_);
  } else if (end_ && holds_ == 0) {
    finished_ = true;
    const grpc::Status status = service::StatusToGrpc(*end_);
    lock.Release();
    Finish(status);
  }
}

}  // namespace remesh::server
