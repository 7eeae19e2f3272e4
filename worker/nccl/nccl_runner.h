// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/nccl/nccl_comms.h"
#include "worker/nccl/nccl_windows.h"

namespace remesh::worker {

// Puts windows on the streams, one after the other, and finds out when they are done. A window
// starts once the one before is on the streams, not once it is done. One thread calls everything
// but Abort(), the only call that blocks.
class NcclRunner {
 public:
  // connect: the time for all ranks to connect. An attempt's first window has as much more, as NCCL
  // connects pairs when they first exchange.
  NcclRunner(const NcclApi* api, GpuStreams* streams, const NcclLimits& limits, int ranks,
             std::vector<NcclLocal> locals, std::chrono::milliseconds connect);

  // Starts to initialise the communicators. Must be the first call.
  absl::Status Init(std::span<const nccl::UniqueId> ids);
  // REQUIRES: !starting().
  absl::Status Start(NcclWindow window);
  bool starting() const { return starting_; }
  // Whether nothing will happen before the next Start().
  bool idle() const { return !starting_ && launched_.empty(); }

  // Polls what is under way, and returns the windows that have ended since the last call. Errors:
  // NCCL_FAILED, NCCL_TIMEOUT, the device's.
  absl::StatusOr<std::vector<NcclWindow>> Step();

  // Aborts and frees the communicators, and waits until nothing is on the streams any more. Blocks,
  // perhaps forever. May be called from any thread; see NcclComms::AbortAll().
  void Abort();
  // The windows that were started and are not done. To be called after Abort().
  std::vector<NcclWindow> TakeRest();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Launched {
    NcclWindow window;
    // Pairs of device and the event behind its part, without those that have passed.
    std::vector<std::pair<int, GpuStreams::Event>> events;
  };

  absl::Status FinishStart();
  absl::StatusOr<bool> FirstIsDone();
  void Expect(std::chrono::milliseconds within);
  absl::Status CheckOverdue() const;

  GpuStreams* const streams_;
  const std::chrono::milliseconds connect_;
  NcclComms comms_;
  bool starting_ = false;
  std::atomic<bool> used_ = false;    // a window was started
  std::optional<NcclWindow> window_;  // the window that is being started
  std::deque<Launched> launched_;
  TimePoint expected_;  // when something must have happened
};

}  // namespace remesh::worker
