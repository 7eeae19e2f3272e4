// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/gpu_kind.h"
#include "worker/nccl/gpu_streams.h"
#include "worker/nccl/nccl_api.h"
#include "worker/options.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// The transport and the devices of this host, as the settings `device` and `transport` say. Members
// end from the last to the first.
struct DataPlane {
  std::unique_ptr<NcclApi> nccl;        // null unless the transport is nccl
  std::unique_ptr<GpuStreams> streams;  // null unless the transport is nccl
  std::unique_ptr<Transport> transport;
  // By local index, or one for all: the host's memory.
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::string> warnings;  // about the environment, for the log
};

GpuKind CudaGpus();

// If the server assigns ids to GPUs, sets options.devices to the number of GPUs that this process
// sees. Errors: as OpenCudaDevices().
absl::Status CountDevices(WorkerOptions& options);

// Opens the data plane. `on_stuck` is called when a device still works on memory that only the end
// of this process frees; see NcclSetup. Errors: INVALID_ARGUMENT naming the setting; those of
// transports and devices.
absl::StatusOr<DataPlane> OpenDataPlane(const WorkerOptions& options,
                                        std::function<void()> on_stuck);

}  // namespace remesh::worker
