// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "worker/gpu_kind.h"

namespace remesh::worker {

// The main() of a worker that can drive GPUs of these kinds. Returns the exit code.
int WorkerMain(int argc, char** argv, const std::vector<GpuKind>& gpus);

}  // namespace remesh::worker
