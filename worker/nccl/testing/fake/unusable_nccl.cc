// SPDX-License-Identifier: Apache-2.0
// A library that cannot be used as NCCL; the build chooses its version.
#include "worker/nccl/nccl_types.h"

extern "C" __attribute__((visibility("default"))) remesh::worker::nccl::Result ncclGetVersion(
    int* version) {
  *version = REMESH_NCCL_VERSION;
  return remesh::worker::nccl::Result::kSuccess;
}

extern "C" __attribute__((visibility("default"))) remesh::worker::nccl::Result ncclGroupStart() {
  return remesh::worker::nccl::Result::kSuccess;
}
