// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace remesh::worker {

struct CudaOptions {
  std::vector<int> indices;           // of GPUs, as the driver numbers them; empty: all
  std::function<void()> on_finished;  // as for CopyPool(); copied to each device
};

// A Device a GPU, in the order of `indices`. Parts may lie in the memory of any of them, where they
// reach each other, and in pinned memory. Where the context is in error `on_finished` may stay
// silent: Drain() has to be called now and then while anything is pending. FAILED_PRECONDITION
// (BUILT_WITHOUT_CUDA; NO_CUDA_DRIVER, CUDA_DRIVER_TOO_OLD: see cuda_driver.h; NO_CUDA_DEVICE: error),
// INVALID_ARGUMENT for an index that is none, INTERNAL (DEVICE_ERROR).
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(const CudaOptions& options);

// GPUs that this process sees, at least 1. Errors: as OpenCudaDevices().
absl::StatusOr<int> CountCudaDevices();

// Memory of the host that every GPU reads and writes, and that Transfer() is quick with. REQUIRES:
// OpenCudaDevices() succeeded. RESOURCE_EXHAUSTED (DEVICE_MEMORY_EXHAUSTED).
absl::StatusOr<std::shared_ptr<std::byte>> AllocatePinned(int64_t bytes);

}  // namespace remesh::worker
