// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "worker/gpu_kind.h"
#include "worker/nccl/gpu_streams.h"

namespace remesh::worker {

// `device: sim`: GPUs that threads of the process simulate and that exchange by the fake NCCL.
GpuKind SimulatedGpus();

// Streams that work on the memory of any simulated GPU of the process.
std::unique_ptr<GpuStreams> NewSimStreams(int count);

}  // namespace remesh::worker
