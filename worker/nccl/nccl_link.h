// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/nccl/nccl_runner.h"

namespace remesh::worker {

// The threads of a link, for work that may block or must be polled. One thread makes the id,
// initialises the communicators and runs the windows. When something fails or Stop() is called,
// another thread aborts. The data thread calls everything here. A link may serve one group after
// the other: between them it is idle, and its thread sleeps.
class NcclLink {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // leave: how long an abort waits for a call to NCCL that is under way; none should block. notify:
  // called from any thread when there is something new here.
  NcclLink(const NcclApi* api, std::unique_ptr<NcclRunner> runner, bool makes_id,
           std::chrono::milliseconds leave, std::function<void()> notify);
  // REQUIRES: gone().
  ~NcclLink();

  // The id of this host, once it is made.
  std::optional<nccl::UniqueId> made_id() const;
  void Connect(std::vector<nccl::UniqueId> ids);
  // Whether the communicators are there: NCCL connects after Connect() has returned.
  bool connected() const;
  // Windows start in the order of these calls.
  void Post(NcclWindow window);

  // Windows that are done since the last call, in order.
  std::vector<NcclWindow> TakeDone();
  // Windows that will never be done. REQUIRES: gone().
  std::vector<NcclWindow> TakeRest();

  // Aborts everything. The first reason counts, whether it is `why` or an error of the link's own.
  void Stop(absl::Status why);
  absl::Status status() const;  // why it stopped; OK while it runs
  // Whether it was stopped at least `after` ago and is not gone.
  bool stuck(std::chrono::milliseconds after) const;
  // Whether it has stopped, no communicator is left, nothing is on any stream, and nothing calls
  // NCCL.
  bool gone() const;

 private:
  struct Shared {
    absl::Status status;
    std::optional<TimePoint> stopped_at;
    std::optional<nccl::UniqueId> made_id;
    std::vector<nccl::UniqueId> ids;
    bool connected = false;
    std::deque<NcclWindow> posted;
    std::vector<NcclWindow> done;
    bool left = false;  // the worker has called NCCL for the last time
    bool gone = false;
    std::thread aborter;
  };

  void Run();
  // Runs until something fails or Stop() is called.
  absl::Status Work();
  absl::Status MakeId();
  absl::StatusOr<std::vector<nccl::UniqueId>> AwaitIds();
  // Sleeps while there is nothing to do or to poll. Returns the next window, if it may start.
  absl::StatusOr<std::optional<NcclWindow>> AwaitNext();
  void TearDown();

  const NcclApi* const api_;
  const std::unique_ptr<NcclRunner> runner_;
  const bool makes_id_;
  const std::chrono::milliseconds leave_;
  const std::function<void()> notify_;
  mutable absl::Mutex mutex_;
  Shared shared_ ABSL_GUARDED_BY(mutex_);
  std::thread worker_;  // last: it uses all of the above
};

}  // namespace remesh::worker
