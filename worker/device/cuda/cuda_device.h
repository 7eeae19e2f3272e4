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

// Opens one Device for each GPU, in the order of `indices`. Parts may lie in the memory of any of
// these GPUs that reach each other, and in pinned memory. If the context is in error, `on_finished`
// may not be called: the owner must call Drain() now and then while anything is pending.
// FAILED_PRECONDITION (BUILT_WITHOUT_CUDA; NO_CUDA_DRIVER, CUDA_DRIVER_TOO_OLD: see cuda_driver.h;
// NO_CUDA_DEVICE: error), INVALID_ARGUMENT for an index that names no GPU, INTERNAL (DEVICE_ERROR).
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(const CudaOptions& options);

// Number of GPUs that this process sees, at least 1. Errors: as OpenCudaDevices().
absl::StatusOr<int> CountCudaDevices();

// Allocates pinned host memory, which every GPU can read and write and with which Transfer() is
// fast. REQUIRES: OpenCudaDevices() succeeded. RESOURCE_EXHAUSTED (DEVICE_MEMORY_EXHAUSTED).
absl::StatusOr<std::shared_ptr<std::byte>> AllocatePinned(int64_t bytes);

}  // namespace remesh::worker
