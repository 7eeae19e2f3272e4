// SPDX-License-Identifier: Apache-2.0
#include "worker/device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "worker/device/cuda/cuda_device_impl.h"
#include "worker/device/cuda/cuda_driver.h"
#include "worker/device/cuda/cuda_status.h"

namespace remesh::worker {
namespace {

// Checks the loaded driver against the needs of this binary.
absl::Status CheckDriver() {
  CudaVersions versions;
  cudaDriverGetVersion(&versions.driver);
  cudaRuntimeGetVersion(&versions.runtime);
  std::ifstream file("/proc/driver/nvidia/version");
  std::string text;
  std::getline(file, text);
  return CheckCudaDriver(versions, ReleaseIn(text));
}

// The error for a failure to count the GPUs.
absl::Status NoCount(cudaError_t error) {
  cudaGetLastError();
  switch (error) {
    case cudaErrorNoDevice:
      return MakeError(absl::StatusCode::kFailedPrecondition, cudaGetErrorString(error),
                       {"NO_CUDA_DEVICE", {{"error", cudaGetErrorName(error)}}});
    default:
      return CudaStatus("cuda", error);
  }
}

absl::StatusOr<std::vector<int>> ChosenGpus(const CudaOptions& options) {
  ASSIGN_OR_RETURN(const int count, CountCudaDevices());
  std::vector<int> chosen = options.indices;
  if (chosen.empty()) {
    chosen.resize(static_cast<size_t>(count));
    std::iota(chosen.begin(), chosen.end(), 0);
  }
  for (int index : chosen) {
    if (index < 0 || index >= count) {
      return InvalidField("cuda index", absl::StrCat(index),
                          absl::StrCat("is none of the ", count, " GPUs here"));
    }
  }
  return chosen;
}

// The GPUs of `chosen` that can access `index` and that `index` can access.
std::vector<int> PeersOf(int index, const std::vector<int>& chosen) {
  std::vector<int> peers;
  for (int other : chosen) {
    int there = 0, back = 0;
    if (other != index && cudaDeviceCanAccessPeer(&there, index, other) == cudaSuccess &&
        cudaDeviceCanAccessPeer(&back, other, index) == cudaSuccess && there != 0 && back != 0) {
      peers.push_back(other);
    }
  }
  return peers;
}

}  // namespace

absl::StatusOr<int> CountCudaDevices() {
  RETURN_IF_ERROR(CheckDriver());
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  return error == cudaSuccess ? absl::StatusOr<int>(count) : NoCount(error);
}

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(const CudaOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<int> chosen, ChosenGpus(options));
  const std::function<void()> wake = options.on_finished ? options.on_finished : [] {};
  std::vector<std::unique_ptr<Device>> devices;
  for (int index : chosen) {
    ASSIGN_OR_RETURN(auto device, CudaDevice::Open(index, PeersOf(index, chosen), wake));
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace remesh::worker
