// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace remesh::worker {

// Memory of GPU `index` that the GPUs `peers` reach too: by the driver's virtual memory management,
// with handles that can be exported as file descriptors, or by cudaMalloc() where the driver lacks
// it. It is freed from any thread. Errors: DeviceMemoryExhausted(), CudaStatus().
absl::StatusOr<std::shared_ptr<std::byte>> AllocateOnGpu(const std::string& device, int index,
                                                         const std::vector<int>& peers,
                                                         int64_t bytes);

// The same for memory that is zero and that others may import, and such memory of others. Errors:
// NoSharedMemory() without the driver's virtual memory, NoSuchMemory().
absl::StatusOr<SharedMemory> ShareOnGpu(const std::string& device, int index,
                                        const std::vector<int>& peers, int64_t bytes);
absl::StatusOr<std::shared_ptr<std::byte>> ImportOnGpu(const std::string& device, int index,
                                                       const std::vector<int>& peers, int handle,
                                                       int64_t bytes);

// The allocation of another process by the handle of CUDA's legacy IPC. Opened on the GPU that it is
// on: the others reach it as they reach what cudaMalloc() gives. Errors: NoSuchMemory().
absl::StatusOr<std::shared_ptr<std::byte>> ImportIpcOnGpu(const std::string& device, int index,
                                                          std::string_view handle, int64_t bytes);

// "GPU-..." as nvidia-smi prints it; empty when the driver does not say.
std::string UuidOfGpu(int index);

// Pins memory of the host, so that every GPU reaches it, until nobody wants it so any more. The
// address by which GPU `index` does. One piece of memory is always registered whole.
absl::StatusOr<std::shared_ptr<std::byte>> RegisterWithGpu(const std::string& device, int index,
                                                           std::span<std::byte> host);

}  // namespace remesh::worker
