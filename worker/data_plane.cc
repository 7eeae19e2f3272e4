// SPDX-License-Identifier: Apache-2.0
#include "worker/data_plane.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/transport_names.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/sim_device.h"
#include "worker/device/sim_memory.h"
#include "worker/execution/data_thread.h"
#include "worker/nccl/cuda_streams.h"
#include "worker/nccl/fake/fake_gpu_streams.h"
#include "worker/nccl/fake/fake_stream_thread.h"
#include "worker/nccl/nccl_environment.h"
#include "worker/nccl/nccl_transport.h"
#include "worker/transport/socket_address.h"
#include "worker/transport/tcp_transport.h"
#include "worker/transport/ucx_transport.h"

namespace remesh::worker {
namespace {

constexpr std::chrono::hours kIdleMax(24);  // the longest time that the planner counts

struct BindAddress {
  std::string ip;
  uint16_t port = 0;
};

// "10.0.0.1", "10.0.0.1:4000", "fd00::1", "[fd00::1]:4000".
absl::StatusOr<BindAddress> BindAddressOf(const WorkerOptions& options) {
  BindAddress bind{options.data_bind_address};
  const size_t colon = options.data_bind_address.rfind(':');
  const bool bracket = options.data_bind_address.front() == '[';
  if (colon == std::string::npos || (!bracket && options.data_bind_address.find(':') != colon))
    return bind;
  uint32_t port = 0;
  if (!absl::SimpleAtoi(options.data_bind_address.substr(colon + 1), &port) || port > 65535) {
    return InvalidField("data_bind_address", options.data_bind_address, "must be IP or IP:PORT");
  }
  bind.port = static_cast<uint16_t>(port);
  bind.ip = bracket ? options.data_bind_address.substr(1, colon - 2)
                    : options.data_bind_address.substr(0, colon);
  return bind;
}

absl::StatusOr<std::unique_ptr<Transport>> OpenHostTransport(const WorkerOptions& options) {
  ASSIGN_OR_RETURN(const BindAddress bind, BindAddressOf(options));
  if (!MakeSocketAddress(bind.ip, bind.port).ok()) {
    return InvalidField("data_bind_address", options.data_bind_address,
                        "must be a numeric IPv4 or IPv6 address, or that and a port");
  }
  if (options.transport != kUcxTransport)
    return NewTcpTransport({.bind_address = bind.ip, .port = bind.port});
  return NewUcxTransport({.bind_address = bind.ip,
                          .port = bind.port,
                          .tls = options.ucx_tls,
                          .net_devices = options.ucx_net_devices});
}

// Streams for NCCL on simulated GPUs.
void AddSimStreams(int count, DataPlane& plane) {
  std::vector<RemeshFakeStream*> streams;
  for (int i = 0; i < count; ++i) {
    auto thread = std::make_shared<FakeStreamThread>(
        [](const std::byte* address, size_t) { return SimMemory::Behind(address); });
    streams.push_back(thread.get());
    plane.streams_of.push_back(std::move(thread));
  }
  plane.streams = std::make_unique<FakeGpuStreams>(std::move(streams));
}

std::unique_ptr<Device> NewSimDevice(int index, Transport* woken) {
  SimOptions options;
  options.device = absl::StrCat("sim:", index);
  options.seed = static_cast<uint32_t>(index + 1);
  return std::make_unique<SimDevice>(options, [woken] { woken->Wake(); });
}

absl::Status OpenGpus(const WorkerOptions& options, std::function<void()> on_stuck,
                      DataPlane& plane) {
  plane.warnings = ApplyNcclEnvironment();
  ASSIGN_OR_RETURN(NcclApi nccl, LoadNccl(options.nccl_library));
  plane.nccl = std::make_unique<NcclApi>(std::move(nccl));
  const int count = static_cast<int>(options.devices);
  if (options.device == "cuda") {
    ASSIGN_OR_RETURN(plane.streams, OpenCudaStreams(count));
  } else {
    AddSimStreams(count, plane);
  }
  NcclOptions nccl_options;
  nccl_options.idle = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::min<std::chrono::nanoseconds>(options.nccl_idle, kIdleMax));
  plane.transport =
      std::make_unique<NcclTransport>(std::move(plane.transport), plane.nccl.get(),
                                      plane.streams.get(), nccl_options, std::move(on_stuck));
  Transport* const woken = plane.transport.get();
  if (options.device == "cuda") {
    CudaOptions cuda{.indices = {}, .on_finished = [woken] { woken->Wake(); }};
    for (int i = 0; i < count; ++i) cuda.indices.push_back(i);
    ASSIGN_OR_RETURN(plane.devices, OpenCudaDevices(cuda));
    return absl::OkStatus();
  }
  for (int i = 0; i < count; ++i) plane.devices.push_back(NewSimDevice(i, woken));
  return absl::OkStatus();
}

}  // namespace

absl::Status CountDevices(WorkerOptions& options) {
  if (options.device != "cuda" || !HasAssignedIds(options)) return absl::OkStatus();
  ASSIGN_OR_RETURN(options.devices, CountCudaDevices());
  return absl::OkStatus();
}

absl::StatusOr<DataPlane> OpenDataPlane(const WorkerOptions& options,
                                        std::function<void()> on_stuck) {
  DataPlane plane;
  ASSIGN_OR_RETURN(plane.transport, OpenHostTransport(options));
  if (options.transport == kNcclTransport) {
    RETURN_IF_ERROR(OpenGpus(options, std::move(on_stuck), plane));
  } else {
    plane.devices = HostMemory(static_cast<int>(options.copy_threads), plane.transport.get());
  }
  return plane;
}

}  // namespace remesh::worker
