// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/device/sim_device.h"
#include "worker/device/sim_memory.h"
#include "worker/nccl/fake/fake_gpu_streams.h"
#include "worker/nccl/fake/fake_stream_thread.h"
#include "worker/nccl/nccl_transport.h"
#include "worker/nccl/testing/fake_library.h"

namespace remesh::worker {

// Simulated GPUs of a host: the streams that the fake NCCL works on.
class SimGpus {
 public:
  explicit SimGpus(int count) {
    std::vector<RemeshFakeStream*> streams;
    for (int i = 0; i < count; ++i) {
      threads_.push_back(std::make_unique<FakeStreamThread>(
          [](const std::byte* address, size_t) { return SimMemory::Behind(address); }));
      streams.push_back(threads_.back().get());
    }
    streams_ = std::make_unique<FakeGpuStreams>(std::move(streams));
  }

  // A transport between such GPUs of several hosts, which connect by `base`.
  std::unique_ptr<Transport> NewTransport(std::unique_ptr<Transport> base,
                                          std::chrono::milliseconds window_timeout) {
    NcclOptions options;
    options.connect_timeout = std::chrono::seconds(20);
    options.window_timeout = window_timeout;
    return std::make_unique<NcclTransport>(std::move(base), &FakeNccl(), streams_.get(), options,
                                           [] { REMESH_CHECK(false); });
  }

 private:
  std::vector<std::unique_ptr<FakeStreamThread>> threads_;
  std::unique_ptr<FakeGpuStreams> streams_;
};

inline std::unique_ptr<Device> NewSimDevice(int host, int local, SimDevice::Notify notify) {
  SimOptions options;
  options.device = absl::StrCat("sim:", host, ":", local);
  options.seed = static_cast<uint32_t>(host * 100 + local);
  return std::make_unique<SimDevice>(options, std::move(notify));
}

}  // namespace remesh::worker
