// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/worker_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

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

WorkerStream* WorkerStream::Start(Core& core, std::string caller,
                                  std::shared_ptr<WriteBudget> budget, Admit admit,
                                  service::HandlerInterceptors interceptors) {
  std::shared_ptr<WorkerStream> stream(new WorkerStream(core, std::move(caller), std::move(budget),
                                                        std::move(admit), std::move(interceptors)));
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
  Enqueue(std::move(message), bytes);
}

void WorkerStream::SendLater(LaterCommands commands) { Enqueue(std::move(commands), 0); }

void WorkerStream::Enqueue(Command command, size_t bytes) {
  absl::ReleasableMutexLock lock(&mutex_);
  if (end_) return;
  if (queue_.size() >= kQueuedMax || queued_bytes_ + bytes > kQueuedBytesMax) {
    end_ = WorkerTooSlow();
    queue_.clear();
    ReportEnd();  // a worker that does not read may keep the stream open forever
  } else {
    queued_bytes_ += bytes;
    queue_.push_back(std::move(command));
  }
  Proceed(lock);
}

void WorkerStream::Close(const absl::Status& status) { EndWith(status); }

void WorkerStream::OnReadDone(bool ok) {
  interceptors_.OnRead(ok ? &incoming_ : nullptr);
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
  const bool first = !registered_;
  auto handled = [self = self_, bytes, first] {
    --self->unhandled_;
    self->unhandled_bytes_ -= bytes;
    if (!first) return;
    self->registered_ = true;
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
    ReportEnd();
  }
  EndWith(status);
}

void WorkerStream::ReportEnd() {
  if (!std::exchange(begun_, false)) return;
  core_.OnStreamEnded(id_, registered_ ? std::nullopt : std::optional(caller_));
}

void WorkerStream::OnWriteDone(bool ok) {
  const std::shared_ptr<WorkerStream> self = self_;  // Proceed() may finish the stream
  v1::AttachResponse written;                        // freed now: the next write may be far off
  size_t spent = 0;
  {
    absl::ReleasableMutexLock lock(&mutex_);
    writing_ = false;
    written.Swap(&outgoing_);
    if (!ok) {
      queue_.clear();
      if (!end_) end_ = absl::CancelledError("the worker hung up");
    }
    spent = TakeSpentShare();
    Proceed(lock);
  }
  if (spent > 0) budget_->Return(spent);
}

size_t WorkerStream::TakeSpentShare() {
  if (share_ == 0 || (made_left_ > 0 && !queue_.empty())) return 0;
  made_left_ = 0;
  return std::exchange(share_, 0);
}

void WorkerStream::AskForShare(absl::ReleasableMutexLock& lock) {
  making_ = true;
  const size_t bytes = std::max<size_t>(std::get<LaterCommands>(queue_.front()).bytes, 1);
  share_ = bytes;
  lock.Release();
  budget_->Take(bytes, [self = self_] { self->OnShare(); });
}

void WorkerStream::OnShare() {
  LaterCommands later;
  bool needed = false;
  {
    absl::MutexLock lock(&mutex_);
    needed = !queue_.empty();  // the stream may have ended since
    if (needed) later = std::get<LaterCommands>(std::move(queue_.front()));
    if (needed) queue_.pop_front();
  }
  std::vector<v1::AttachResponse> made;
  if (needed) made = later.make();
  later = {};  // its memory counts, too
  size_t spent = 0;
  {
    absl::ReleasableMutexLock lock(&mutex_);
    making_ = false;
    if (!end_) {
      made_left_ = made.size();
      for (const v1::AttachResponse& one : made) queued_bytes_ += one.ByteSizeLong();
      queue_.insert(queue_.begin(), std::move_iterator(made.begin()),
                    std::move_iterator(made.end()));
    }
    spent = TakeSpentShare();
    Proceed(lock);
  }
  if (spent > 0) budget_->Return(spent);
}

void WorkerStream::OnCancel() { Leave(absl::CancelledError("the worker hung up")); }

void WorkerStream::OnDone() {
  Leave(absl::OkStatus());
  interceptors_ = {};  // before the context goes; tasks of the core may hold the stream longer
  self_ = nullptr;     // may be the last owner
}

// Drops the commands that wait. They would stay in memory for as long as the worker does not read,
// and are not needed: the next stream begins with everything that the worker must know. A worker
// that does not read may keep the write under way open, but not its share.
void WorkerStream::EndWith(const absl::Status& status) {
  const std::shared_ptr<WriteBudget> budget = budget_;  // Proceed() may finish the stream
  std::deque<Command> dropped;                          // destroyed without the lock: may be large
  size_t spent = 0;
  {
    absl::ReleasableMutexLock lock(&mutex_);
    if (!end_) end_ = status;
    dropped.swap(queue_);
    if (!making_) spent = TakeSpentShare();
    Proceed(lock);
  }
  if (spent > 0) budget->Return(spent);
}

// Starts the next operation if none is running. Releases the lock first, because gRPC may call back
// at once.
void WorkerStream::Proceed(absl::ReleasableMutexLock& lock) {
  if (writing_ || finished_) return;
  if (!queue_.empty()) {
    if (making_) return;
    if (std::holds_alternative<LaterCommands>(queue_.front())) return AskForShare(lock);
    writing_ = true;
    outgoing_ = std::get<v1::AttachResponse>(std::move(queue_.front()));
    queue_.pop_front();
    if (made_left_ > 0) --made_left_;
    queued_bytes_ -= std::min(queued_bytes_, outgoing_.ByteSizeLong());
    lock.Release();
    interceptors_.OnWrite(outgoing_);
    StartWrite(&outgoing_);
  } else if (end_ && holds_ == 0) {
    finished_ = true;
    const grpc::Status status = service::StatusToGrpc(*end_);
    lock.Release();
    Finish(interceptors_.OnFinish(status));
  }
}

}  // namespace remesh::server
