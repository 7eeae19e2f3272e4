// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/device/kernels/table.h"

namespace remesh::worker {

// Queues the chunks of a table on `stream`, one warp for each chunk. It is the only function that
// nvcc compiles. REQUIRES: the device can read the table; chunks > 0.
cudaError_t RunTable(const kernels::TableView& table, int64_t chunks, cudaStream_t stream);

// Loads the kernel, so that the first table does not wait for that.
cudaError_t PrepareRunTable();

}  // namespace remesh::worker
