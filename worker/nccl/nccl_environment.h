// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace remesh::worker {

// Variables NCCL_* control NCCL, and some of them break what the link relies on. Those on a list
// stay: which networks and devices to use, how many channels, what to log. All others are unset,
// and a warning that is returned names each. Two are set to what the link needs, so that a file
// (/etc/nccl.conf, ~/.nccl.conf) cannot override them: NCCL_LAUNCH_MODE=PARALLEL (with GROUP every
// launch waits for all local ranks, so that a window without one of them never starts), and
// NCCL_COMM_BLOCKING=0.
//
// Call it before LoadNccl(), and before there are threads that read the environment.
std::vector<std::string> ApplyNcclEnvironment();

// Whether a variable is on the list and may stay.
bool IsNcclVariableAllowed(std::string_view name);

}  // namespace remesh::worker
