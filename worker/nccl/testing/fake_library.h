// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "worker/nccl/nccl_api.h"

namespace remesh::worker {

// Path of a loadable library that the build made, as "libremesh_fake_nccl.so".
std::string LoadableLibrary(const std::string& name);

// The fake NCCL, loaded as the real one is.
const NcclApi& FakeNccl();

// How many communicators this process ever made, and how many it has not freed.
int FakeNcclMade();
int FakeNcclLiving();

}  // namespace remesh::worker
