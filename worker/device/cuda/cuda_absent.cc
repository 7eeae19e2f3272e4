// SPDX-License-Identifier: Apache-2.0
// The implementation for builds without a CUDA toolkit.
#include "base/error.h"
#include "worker/device/cuda/cuda_device.h"

namespace remesh::worker {
namespace {

absl::Status BuiltWithoutCuda() {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   "this binary was built without CUDA: configure with -DREMESH_CUDA=ON",
                   {"BUILT_WITHOUT_CUDA", {}});
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(const CudaOptions&) {
  return BuiltWithoutCuda();
}

absl::StatusOr<int> CountCudaDevices() { return BuiltWithoutCuda(); }

absl::StatusOr<std::shared_ptr<std::byte>> AllocatePinned(int64_t) { return BuiltWithoutCuda(); }

}  // namespace remesh::worker
