// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/device.h"
#include "worker/device/table_device.h"
#include "worker/device/testing/sim_memory.h"

namespace remesh::worker {

struct SimOptions {
  std::string device = "sim:0";
  int64_t memory_bytes = int64_t{1} << 30;
  uint32_t seed = 1;
  bool delays = true;
  // Called on each ImportIpc(), for a test in which opening an allocation takes long.
  std::function<void()> opening = [] {};
};

// A simulated GPU, for tests of all code around a GPU on any machine. Dereferencing one of its
// addresses crashes. Work runs on a thread of its own, with the code that GPUs run, late and in an
// arbitrary order. The memory that work will write holds noise from the moment the work is given,
// so that a test catches code that reads too early or relies on cancelled work. Parts may lie in
// the memory of this device, of another device of the process, or of the host.
class SimDevice final : public TableDevice {
 public:
  using Notify = absl::AnyInvocable<void() const>;

  // `on_finished` as for CopyPool().
  SimDevice(SimOptions options, Notify on_finished);
  ~SimDevice() override;

  std::string_view name() const override { return "sim"; }
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(int64_t bytes) override;
  std::string uuid() const override { return options_.device; }
  absl::StatusOr<SharedMemory> Share(int64_t bytes) override { return memory_.Share(bytes); }
  absl::StatusOr<std::shared_ptr<std::byte>> Import(int handle, int64_t bytes) override {
    return memory_.Import(handle, bytes);
  }
  absl::StatusOr<std::shared_ptr<std::byte>> ImportIpc(std::string_view handle,
                                                       int64_t bytes) override {
    options_.opening();
    return memory_.ImportIpc(handle, bytes);
  }
  absl::StatusOr<std::shared_ptr<std::byte>> Register(std::span<std::byte> host) override {
    return SimMemory::Alias(host);
  }
  void Transfer(std::byte* to, const std::byte* from, int64_t bytes, Done done) override;
  void CancelQueued() override;
  bool Drain() override;
  int pending() const override { return pending_; }

  // The most memory that was ever allocated at once, in bytes.
  int64_t most_bytes() const { return memory_.most_bytes(); }

  // After `works` more works have run, all other work ends in DeviceError(), as when a CUDA context
  // is in error. From then on `on_finished` is not called.
  void FailAfter(int64_t works);

 private:
  struct Work {
    absl::AnyInvocable<Mismatch(std::mt19937&)> run;
    Done done;
    absl::StatusOr<Mismatch> result = Mismatch();
  };

  void RunTable(WorkKind kind, std::vector<SlicePart> parts, std::byte* buffer, Done done) override;
  void Give(absl::AnyInvocable<Mismatch(std::mt19937&)> run, Done done);
  void RunThread();
  void Linger();
  // Waits for and returns the thread's next work, which has no `run` when the device stops.
  Work Next();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queued_.empty();
  }

  const SimOptions options_;
  const Notify on_finished_;
  SimMemory memory_;
  int pending_ = 0;      // used by the owning thread alone
  std::mt19937 random_;  // used by the stream's thread
  absl::Mutex mutex_;
  std::deque<Work> queued_ ABSL_GUARDED_BY(mutex_);
  std::deque<Work> ended_ ABSL_GUARDED_BY(mutex_);
  int64_t works_left_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<int64_t>::max();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh::worker
