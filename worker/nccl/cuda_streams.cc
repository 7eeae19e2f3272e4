// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/cuda_streams.h"

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/device/cuda/cuda_status.h"

namespace remesh::worker {
namespace {

class CudaStreams final : public GpuStreams {
 public:
  ~CudaStreams() override {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }

  absl::Status Add(int device) {
    RETURN_IF_ERROR(MakeCurrent(device));
    cudaStream_t stream = nullptr;
    REMESH_CUDA_OR_RETURN(Label(device), cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams_.push_back(stream);
    return absl::OkStatus();
  }

  absl::Status MakeCurrent(int device) override {
    return CudaStatus(Label(device), cudaSetDevice(device));
  }
  nccl::Stream Handle(int device) override {
    return reinterpret_cast<nccl::Stream>(streams_[device]);
  }
  absl::StatusOr<Event> Record(int device) override {
    RETURN_IF_ERROR(MakeCurrent(device));
    cudaEvent_t event = nullptr;
    REMESH_CUDA_OR_RETURN(Label(device), cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    if (const cudaError_t error = cudaEventRecord(event, streams_[device]); error != cudaSuccess) {
      cudaEventDestroy(event);
      return CudaStatus(Label(device), error);
    }
    return reinterpret_cast<Event>(event);
  }
  absl::StatusOr<bool> Passed(int device, Event event) override {
    const auto at = reinterpret_cast<cudaEvent_t>(event);
    const cudaError_t error = cudaEventQuery(at);
    if (error == cudaErrorNotReady) return false;
    cudaEventDestroy(at);
    RETURN_IF_ERROR(CudaStatus(Label(device), error));
    return true;
  }

 private:
  static std::string Label(int device) { return absl::StrCat("cuda:", device); }

  std::vector<cudaStream_t> streams_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuStreams>> OpenCudaStreams(int count) {
  auto streams = std::make_unique<CudaStreams>();
  for (int device = 0; device < count; ++device) RETURN_IF_ERROR(streams->Add(device));
  return streams;
}

}  // namespace remesh::worker
