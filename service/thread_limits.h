// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace remesh::service {

// Whether this process may have `count` more threads: it starts them and ends them again.
// RESOURCE_EXHAUSTED (THREAD_LIMIT) with the limits that are set, else; libraries end the process
// without a word when they get none.
absl::Status CheckThreadsCanStart(int count);

// What bounds the number of threads here, such as "RLIMIT_NPROC 100, pids.max 64".
std::string ThreadLimits();

// From now on, a process that cannot go on, for want of a thread above all, says so in one line of
// the log before it ends.
void ExplainTermination();

}  // namespace remesh::service
