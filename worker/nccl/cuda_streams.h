// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/nccl/gpu_streams.h"

namespace remesh::worker {

// A stream on each of the GPUs 0 to count - 1. Errors: as OpenCudaDevices().
absl::StatusOr<std::unique_ptr<GpuStreams>> OpenCudaStreams(int count);

}  // namespace remesh::worker
