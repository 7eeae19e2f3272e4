// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace remesh::service {

// Checks that this process can start `count` more threads by starting them and ending them again.
// RESOURCE_EXHAUSTED (THREAD_LIMIT) with the limits in force if it cannot. Without this check,
// libraries that get no thread end the process without a message.
absl::Status CheckThreadsCanStart(int count);

// The limits on the number of threads here, such as "RLIMIT_NPROC 100, pids.max 64,
// kernel.threads-max 127000".
std::string ThreadLimits();

// From now on, a process that cannot go on, above all for lack of a thread, logs one line that says
// so before it ends.
void ExplainTermination();

}  // namespace remesh::service
