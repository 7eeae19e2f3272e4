// SPDX-License-Identifier: Apache-2.0
// The stand-in for cuda_streams.cc where no CUDA toolkit was found.
#include "base/error.h"
#include "worker/nccl/cuda_streams.h"

namespace remesh::worker {

absl::StatusOr<std::unique_ptr<GpuStreams>> OpenCudaStreams(int) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   "this binary was built without CUDA: configure with -DREMESH_CUDA=ON",
                   {"BUILT_WITHOUT_CUDA", {}});
}

}  // namespace remesh::worker
