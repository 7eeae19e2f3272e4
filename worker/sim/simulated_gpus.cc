// SPDX-License-Identifier: Apache-2.0
#include "worker/sim/simulated_gpus.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/device/testing/sim_device.h"
#include "worker/device/testing/sim_memory.h"
#include "worker/nccl/testing/fake/fake_gpu_streams.h"
#include "worker/nccl/testing/fake/fake_stream_thread.h"

namespace remesh::worker {
namespace {

using Threads = std::vector<std::unique_ptr<FakeStreamThread>>;

Threads StartThreads(int count) {
  Threads threads;
  for (int i = 0; i < count; ++i) {
    threads.push_back(std::make_unique<FakeStreamThread>(
        [](const std::byte* address, size_t) { return SimMemory::Behind(address); }));
  }
  return threads;
}

std::vector<RemeshFakeStream*> StreamsOf(const Threads& threads) {
  std::vector<RemeshFakeStream*> streams;
  for (const auto& thread : threads) streams.push_back(thread.get());
  return streams;
}

// Owns the threads of its streams.
class SimStreams final : public FakeGpuStreams {
 public:
  explicit SimStreams(Threads threads)
      : FakeGpuStreams(StreamsOf(threads)), threads_(std::move(threads)) {}

 private:
  const Threads threads_;
};

absl::StatusOr<std::unique_ptr<GpuStreams>> OpenStreams(int count) { return NewSimStreams(count); }

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(
    int count, const std::function<void()>& on_finished) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < count; ++i) {
    SimOptions options;
    options.device = absl::StrCat("sim:", i);
    options.seed = static_cast<uint32_t>(i + 1);
    devices.push_back(std::make_unique<SimDevice>(options, on_finished));
  }
  return devices;
}

}  // namespace

GpuKind SimulatedGpus() {
  return {.name = "sim", .open_streams = OpenStreams, .open_devices = OpenDevices};
}

std::unique_ptr<GpuStreams> NewSimStreams(int count) {
  return std::make_unique<SimStreams>(StartThreads(count));
}

}  // namespace remesh::worker
