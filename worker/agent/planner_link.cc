// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/planner_link.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace remesh::worker {
namespace {

double Jitter() {
  thread_local std::mt19937 random{std::random_device()()};
  return std::uniform_real_distribution<double>(0.8, 1.2)(random);
}

}  // namespace

PlannerLink::PlannerLink(PlannerChannel* channel, Options options, Events events)
    : channel_(channel), options_(options), events_(std::move(events)) {}

PlannerLink::~PlannerLink() { Stop(); }

void PlannerLink::Start() {
  thread_ = std::thread([this] { Run(); });
}

void PlannerLink::Begin(v1::AttachRequest first) {
  absl::MutexLock lock(&mutex_);
  if (!open_ || begun_) return;
  begun_ = true;
  queue_.push_back(std::move(first));
}

void PlannerLink::Send(const v1::AttachRequest& message) {
  absl::MutexLock lock(&mutex_);
  if (begun_) queue_.push_back(message);
}

bool PlannerLink::Flushed() {
  absl::MutexLock lock(&mutex_);
  return queue_.empty();
}

void PlannerLink::SetHeartbeatInterval(std::chrono::nanoseconds interval) {
  absl::MutexLock lock(&mutex_);
  heartbeat_ = std::max<std::chrono::nanoseconds>(interval, std::chrono::milliseconds(10));
}

void PlannerLink::Disconnect() {
  absl::MutexLock lock(&mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

void PlannerLink::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  if (thread_.joinable()) thread_.join();
}

void PlannerLink::Run() {
  auto pause = options_.retry_min;
  while (true) {
    const auto started = std::chrono::steady_clock::now();
    const grpc::Status status = RunStream();
    // A stream that was open for a while was good: pauses begin again.
    if (std::chrono::steady_clock::now() - started > options_.retry_max) pause = options_.retry_min;
    if (Stopping()) return;
    if (events_.disconnected(status)) pause = options_.retry_max;
    Pause(std::chrono::duration_cast<std::chrono::nanoseconds>(pause * Jitter()));
    if (Stopping()) return;
    pause = std::min(pause * 8 / 5, options_.retry_max);
  }
}

bool PlannerLink::Stopping() {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

void PlannerLink::Pause(std::chrono::nanoseconds pause) {
  constexpr absl::Duration kGlance = absl::Milliseconds(50);
  const absl::Time end = absl::Now() + absl::FromChrono(pause);
  const std::shared_ptr<grpc::Channel> channel = channel_->Get();
  // A planner that is there and refuses this worker is left alone for the whole pause. The channel
  // may learn later than the stream that a planner died, so its state is polled.
  bool away = false;
  while (absl::Now() < end) {
    const bool ready = channel->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
    if (away && ready) return;
    away = away || !ready;
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &PlannerLink::stopping),
                            std::min(end - absl::Now(), kGlance));
    if (stopping_) return;
  }
}

grpc::Status PlannerLink::RunStream() {
  grpc::ClientContext context;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return grpc::Status::CANCELLED;
    context_ = &context;
    open_ = true;
  }
  const std::unique_ptr<Stream> stream =
      v1::WorkerService::NewStub(channel_->Get())->Attach(&context);
  std::thread writer([this, &stream] { Write(stream.get()); });
  events_.connected();
  v1::AttachResponse response;
  while (stream->Read(&response)) events_.received(std::move(response));
  {
    absl::MutexLock lock(&mutex_);
    open_ = begun_ = false;
    queue_.clear();
  }
  writer.join();
  const grpc::Status status = stream->Finish();
  absl::MutexLock lock(&mutex_);
  context_ = nullptr;
  return status;
}

void PlannerLink::Write(Stream* stream) {
  while (true) {
    v1::AttachRequest message;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(this, &PlannerLink::WriterMayRun),
                              absl::FromChrono(heartbeat_));
      if (!open_) return;
      if (!queue_.empty()) {
        message = std::move(queue_.front());
        queue_.pop_front();
      } else if (begun_) {
        *message.mutable_heartbeat() = events_.beat();
      } else {
        continue;
      }
    }
    // A failed write ends the stream for the reader, too, which reports why.
    if (!stream->Write(message)) return;
    if (message.has_heartbeat()) events_.heartbeat();
  }
}

}  // namespace remesh::worker
