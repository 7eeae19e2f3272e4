// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/status/status.h"

namespace remesh::worker {

// OK, or DeviceError() with CUDA's name for `error` and its sentence.
absl::Status CudaStatus(std::string_view device, cudaError_t error);

}  // namespace remesh::worker

// Returns CudaStatus(device, call) unless that is OK.
#define REMESH_CUDA_OR_RETURN(device, call)                         \
  do {                                                              \
    if (const cudaError_t error_ = (call); error_ != cudaSuccess) { \
      return ::remesh::worker::CudaStatus(device, error_);          \
    }                                                               \
  } while (false)
