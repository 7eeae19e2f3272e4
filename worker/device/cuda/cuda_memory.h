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

// Allocates memory of GPU `index` that the GPUs `peers` can access too. It uses the driver's
// virtual memory management, whose handles can be exported as file descriptors, or cudaMalloc() if
// the driver lacks that. Any thread may free the memory. Errors: DeviceMemoryExhausted(),
// CudaStatus().
absl::StatusOr<std::shared_ptr<std::byte>> AllocateOnGpu(const std::string& device, int index,
                                                         const std::vector<int>& peers,
                                                         int64_t bytes);

// ShareOnGpu() allocates zeroed memory that other processes can import; ImportOnGpu() opens such
// memory of another process. Errors: NoSharedMemory() without the driver's virtual memory,
// NoSuchMemory() for a handle, and those of AllocateOnGpu().
absl::StatusOr<SharedMemory> ShareOnGpu(const std::string& device, int index,
                                        const std::vector<int>& peers, int64_t bytes);
absl::StatusOr<std::shared_ptr<std::byte>> ImportOnGpu(const std::string& device, int index,
                                                       const std::vector<int>& peers, int handle,
                                                       int64_t bytes);

// Opens an allocation of another process by its CUDA legacy IPC handle, on the GPU that holds it.
// The other GPUs access it as they access memory of cudaMalloc(). Errors: NoSuchMemory(),
// CudaStatus().
absl::StatusOr<std::shared_ptr<std::byte>> ImportIpcOnGpu(const std::string& device, int index,
                                                          std::string_view handle, int64_t bytes);

// The GPU's UUID ("GPU-...") as nvidia-smi prints it; empty if the driver does not report it.
std::string UuidOfGpu(int index);

// Pins host memory, so that every GPU can access it, until the last registration of it is released.
// Returns the address by which GPU `index` accesses it. REQUIRES: registrations of the same memory
// cover the same range. Errors: CudaStatus().
absl::StatusOr<std::shared_ptr<std::byte>> RegisterWithGpu(const std::string& device, int index,
                                                           std::span<std::byte> host);

}  // namespace remesh::worker
