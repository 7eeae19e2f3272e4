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

struct NcclTimeouts {
  std::chrono::milliseconds connect{0};  // of all ranks; an attempt's first window has as much
                                         // more, as NCCL connects pairs when they first exchange
  std::chrono::milliseconds window{0};   // without any window starting or ending
};

// Puts windows on the streams, one after the other, and sees when they are done. A window starts
// once the one before is on the streams, not once it is done. One thread calls everything but
// Abort(); nothing else blocks.
class NcclRunner {
 public:
  NcclRunner(const NcclApi* api, GpuStreams* streams, const NcclLimits& limits, int ranks,
             std::vector<NcclLocal> locals, const NcclTimeouts& timeouts);

  // Starts to initialise the communicators; first.
  absl::Status Init(std::span<const nccl::UniqueId> ids);
  // REQUIRES: !starting().
  absl::Status Start(NcclWindow window);
  bool starting() const { return starting_; }
  // Nothing will happen before the next Start().
  bool idle() const { return !starting_ && launched_.empty(); }

  // Looks at what is under way; the windows that are done since. Errors: NCCL_FAILED, NCCL_TIMEOUT,
  // the device's.
  absl::StatusOr<std::vector<NcclWindow>> Step();

  // Aborts and frees the communicators and waits until nothing is on the streams any more. Blocks,
  // perhaps for good. From any thread; see NcclComms::AbortAll().
  void Abort();
  // What was started and is not done. After Abort().
  std::vector<NcclWindow> TakeRest();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Launched {
    NcclWindow window;
    std::vector<std::pair<int, GpuStreams::Event>> events;  // (device, after its part), not passed
  };

  absl::Status FinishStart();
  absl::StatusOr<bool> FirstIsDone();
  void Expect(std::chrono::milliseconds within);
  absl::Status CheckOverdue() const;

  GpuStreams* const streams_;
  const NcclTimeouts timeouts_;
  NcclComms comms_;
  bool starting_ = false;
  std::atomic<bool> used_ = false;    // a window was started
  std::optional<NcclWindow> window_;  // that is starting
  std::deque<Launched> launched_;
  TimePoint expected_;  // when something is to have happened
};

}  // namespace remesh::worker
