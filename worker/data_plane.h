// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/nccl/gpu_streams.h"
#include "worker/nccl/nccl_api.h"
#include "worker/options.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// What bytes go through on this host, as the settings `device` and `transport` say. Ends from the
// last member to the first.
struct DataPlane {
  std::unique_ptr<NcclApi> nccl;                  // null but with transport nccl
  std::vector<std::shared_ptr<void>> streams_of;  // what `streams` works on
  std::unique_ptr<GpuStreams> streams;            // the same
  std::unique_ptr<Transport> transport;
  std::vector<std::unique_ptr<Device>> devices;  // by local index; one for all of the host's
  std::vector<std::string> warnings;             // about the environment, for the log
};

// Where the server assigns ids to GPUs, all that this process sees are the host's devices. Errors: as
// OpenCudaDevices().
absl::Status CountDevices(WorkerOptions& options);

// Opens it. on_stuck: only the end of this process frees what a device still works on; see
// NcclSetup. Errors: INVALID_ARGUMENT naming the setting; those of transports and devices.
absl::StatusOr<DataPlane> OpenDataPlane(const WorkerOptions& options,
                                        std::function<void()> on_stuck);

}  // namespace remesh::worker
