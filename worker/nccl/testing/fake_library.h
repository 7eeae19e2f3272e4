// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "worker/nccl/nccl_api.h"

namespace remesh::worker {

// Where the build put a library that is made to be loaded, as "libremesh_fake_nccl.so".
std::string LoadableLibrary(const std::string& name);

// The fake NCCL, found as the true one is.
const NcclApi& FakeNccl();

// Communicators that this process ever made, and those that it has not freed.
int FakeNcclMade();
int FakeNcclLiving();

}  // namespace remesh::worker
