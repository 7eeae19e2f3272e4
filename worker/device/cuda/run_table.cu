// SPDX-License-Identifier: Apache-2.0
#include "worker/device/cuda/run_table.h"
#include "worker/device/kernels/run_chunk.h"

namespace remesh::worker {
namespace {

// A block is one warp. 12 of them fit on an SM of H100 at once, by their registers and by their
// stages of 16 KiB. With 4 to 8 KiB each on the way from memory they hide its latency: more blocks,
// or none of the stages, are not faster.
__global__ void __launch_bounds__(kernels::kLanes) RunChunks(kernels::TableView table) {
  __shared__ kernels::Stage stage;
  kernels::RunChunk<kernels::LanesOfWarp>(table, blockIdx.x, stage);
}

}  // namespace

cudaError_t RunTable(const kernels::TableView& table, int64_t chunks, cudaStream_t stream) {
  RunChunks<<<static_cast<unsigned>(chunks), kernels::kLanes, 0, stream>>>(table);
  return cudaGetLastError();
}

cudaError_t PrepareRunTable() {
  return cudaFuncSetAttribute(RunChunks, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
}

}  // namespace remesh::worker
