// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/nccl/gpu_streams.h"

namespace remesh::worker {

// A kind of GPU that a binary can drive.
struct GpuKind {
  std::string name;  // as the setting `device` names it

  // Opens a stream on each of the GPUs 0 to count - 1, for NCCL.
  absl::StatusOr<std::unique_ptr<GpuStreams>> (*open_streams)(int count);

  // Opens these GPUs. `on_finished` as for CopyPool().
  absl::StatusOr<std::vector<std::unique_ptr<Device>>> (*open_devices)(
      int count, const std::function<void()>& on_finished);
};

}  // namespace remesh::worker
