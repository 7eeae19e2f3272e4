// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/client_context.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "remesh/v1/worker.grpc.pb.h"
#include "worker/agent/planner_channel.h"

namespace remesh::worker {

// Keeps one Attach stream to the planner open. It dials again with growing pauses, which end as
// soon as a planner that was away can be reached. It sends heartbeats on a thread of its own, so
// that nothing that the agent does delays them; they say how far the agent got. Methods are
// thread-safe.
class PlannerLink {
 public:
  struct Options {
    // Pauses grow from min to max, each up to a fifth longer or shorter, so that workers do not all
    // dial at once.
    std::chrono::milliseconds retry_min{100};
    std::chrono::milliseconds retry_max{5000};
  };
  struct Events {
    // A stream is open: the receiver must answer with Begin(), on any thread. Called on the link's
    // thread.
    absl::AnyInvocable<void()> connected;
    // Called on the link's thread.
    absl::AnyInvocable<void(v1::AttachResponse)> received;
    // The stream has ended, or could not be opened. Returns true if there is no use in dialling
    // again soon. Called on the link's thread.
    absl::AnyInvocable<bool(const grpc::Status&)> disconnected;
    // A heartbeat was sent. Called on the writer's thread.
    absl::AnyInvocable<void()> heartbeat = [] {};
    // Called on the writer's thread.
    absl::AnyInvocable<v1::Heartbeat()> beat = [] { return v1::Heartbeat(); };
  };

  // `channel` must outlive the link.
  PlannerLink(PlannerChannel* channel, Options options, Events events);
  ~PlannerLink();

  // Starts to dial.
  void Start();
  // Opens the stream's queue with its first message. Messages that Send() got before are not sent.
  void Begin(v1::AttachRequest first);
  // Queues a message, or drops it if no stream has begun.
  void Send(const v1::AttachRequest& message);
  // Whether no message from Send() waits to be written.
  bool Flushed();
  void SetHeartbeatInterval(std::chrono::nanoseconds interval);
  // Ends the stream; the link then dials another.
  void Disconnect();
  // Ends everything; no event follows. Idempotent.
  void Stop();

 private:
  using Stream = grpc::ClientReaderWriter<v1::AttachRequest, v1::AttachResponse>;

  void Run();
  // Waits until the time is over, the link stops, or a planner that was away can be reached.
  void Pause(std::chrono::nanoseconds pause);
  grpc::Status RunStream();
  // Writes the queue, and heartbeats, until the stream ends.
  void Write(Stream* stream);
  bool WriterMayRun() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !open_ || !queue_.empty();
  }
  bool Stopping();
  bool stopping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; }

  PlannerChannel* const channel_;
  const Options options_;
  Events events_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;   // a stream is open
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;  // its first message is queued
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::deque<v1::AttachRequest> queue_ ABSL_GUARDED_BY(mutex_);
  std::chrono::nanoseconds heartbeat_ ABSL_GUARDED_BY(mutex_) = std::chrono::seconds(1);

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh::worker
