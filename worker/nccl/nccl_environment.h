// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace remesh::worker {

// NCCL is steered by variables NCCL_*, some of which break what the link relies on. Those on a list
// stay: which networks and devices to use, how many channels, what to log. All others are unset,
// and each is told in a warning that comes back. Two are set to what the link needs, so that a file
// (/etc/nccl.conf, ~/.nccl.conf) cannot say otherwise: NCCL_LAUNCH_MODE=PARALLEL (GROUP waits for
// all local ranks at every launch, so that a window without one of them never starts), and
// NCCL_COMM_BLOCKING=0.
//
// Before LoadNccl(), and before there are threads that read the environment.
std::vector<std::string> ApplyNcclEnvironment();

// Whether a variable may stay.
bool IsNcclVariableAllowed(std::string_view name);

}  // namespace remesh::worker
