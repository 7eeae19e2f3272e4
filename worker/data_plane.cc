// SPDX-License-Identifier: Apache-2.0
#include "worker/data_plane.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/host_port.h"
#include "base/text/transport_names.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/execution/data_thread.h"
#include "worker/nccl/cuda_streams.h"
#include "worker/nccl/nccl_environment.h"
#include "worker/nccl/nccl_transport.h"
#include "worker/transport/socket_address.h"
#include "worker/transport/tcp_transport.h"
#include "worker/transport/ucx_transport.h"

namespace remesh::worker {
namespace {

constexpr std::chrono::hours kIdleMax(24);  // the longest time that the planner counts

// "10.0.0.1", "10.0.0.1:4000", "fd00::1", "[fd00::1]:4000"; without a port, that is 0.
absl::StatusOr<HostPort> BindAddressOf(const WorkerOptions& options) {
  const std::string& text = options.data_bind_address;
  if (std::optional<HostPort> split = SplitHostPort(text)) return *std::move(split);
  if (!text.starts_with('[') && std::ranges::count(text, ':') != 1) return HostPort{.host = text};
  return InvalidField("data_bind_address", text, "must be IP or IP:PORT");
}

absl::StatusOr<std::unique_ptr<Transport>> OpenHostTransport(const WorkerOptions& options) {
  ASSIGN_OR_RETURN(const HostPort bind, BindAddressOf(options));
  const uint16_t port = static_cast<uint16_t>(bind.port);
  if (!MakeSocketAddress(bind.host, port).ok()) {
    return InvalidField("data_bind_address", options.data_bind_address,
                        "must be a numeric IPv4 or IPv6 address, or that and a port");
  }
  if (options.transport != kUcxTransport)
    return NewTcpTransport({.bind_address = bind.host, .port = port});
  return NewUcxTransport({.bind_address = bind.host,
                          .port = port,
                          .tls = options.ucx_tls,
                          .net_devices = options.ucx_net_devices});
}

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenFirstCudaDevices(
    int count, const std::function<void()>& on_finished) {
  CudaOptions options{.on_finished = on_finished};
  for (int i = 0; i < count; ++i) options.indices.push_back(i);
  return OpenCudaDevices(options);
}

const GpuKind& KindOf(const WorkerOptions& options) {
  const auto kind = std::find_if(options.gpus.begin(), options.gpus.end(),
                                 [&](const GpuKind& one) { return one.name == options.device; });
  REMESH_CHECK(kind != options.gpus.end());  // Complete() has refused others
  return *kind;
}

absl::Status OpenGpus(const WorkerOptions& options, std::function<void()> on_stuck,
                      DataPlane& plane) {
  plane.warnings = ApplyNcclEnvironment();
  ASSIGN_OR_RETURN(NcclApi nccl, LoadNccl(options.nccl_library));
  plane.nccl = std::make_unique<NcclApi>(std::move(nccl));
  const GpuKind& kind = KindOf(options);
  const int count = static_cast<int>(options.devices);
  ASSIGN_OR_RETURN(plane.streams, kind.open_streams(count));
  NcclOptions nccl_options;
  nccl_options.idle = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::min<std::chrono::nanoseconds>(options.nccl_idle, kIdleMax));
  plane.transport =
      std::make_unique<NcclTransport>(std::move(plane.transport), plane.nccl.get(),
                                      plane.streams.get(), nccl_options, std::move(on_stuck));
  Transport* const woken = plane.transport.get();
  ASSIGN_OR_RETURN(plane.devices, kind.open_devices(count, [woken] { woken->Wake(); }));
  return absl::OkStatus();
}

}  // namespace

GpuKind CudaGpus() {
  return {.name = "cuda", .open_streams = OpenCudaStreams, .open_devices = OpenFirstCudaDevices};
}

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
