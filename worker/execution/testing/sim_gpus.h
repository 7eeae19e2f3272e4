// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/device/testing/sim_device.h"
#include "worker/nccl/nccl_transport.h"
#include "worker/nccl/testing/fake_library.h"
#include "worker/sim/simulated_gpus.h"

namespace remesh::worker {

// A transport between simulated GPUs of several hosts, which connect by `base`.
inline std::unique_ptr<Transport> NewSimTransport(std::unique_ptr<Transport> base,
                                                  GpuStreams* streams,
                                                  std::chrono::milliseconds window_timeout) {
  NcclOptions options;
  options.connect_timeout = std::chrono::seconds(20);
  options.window_timeout = window_timeout;
  return std::make_unique<NcclTransport>(std::move(base), &FakeNccl(), streams, options,
                                         [] { REMESH_CHECK(false); });
}

inline std::unique_ptr<Device> NewSimDevice(int host, int local, SimDevice::Notify notify) {
  SimOptions options;
  options.device = absl::StrCat("sim:", host, ":", local);
  options.seed = static_cast<uint32_t>(host * 100 + local);
  return std::make_unique<SimDevice>(options, std::move(notify));
}

}  // namespace remesh::worker
