// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace remesh::service {

// A generous number of threads for a gRPC server and what serves its calls; gRPC's grow with the
// cores.
int SpareThreads();

// Checks that `spare` more threads can start, by starting them and ending them again.
// RESOURCE_EXHAUSTED (THREAD_LIMIT) with the limits in force if they cannot. Call it before a gRPC
// server starts: one that gets no thread aborts the process without naming the cause. Threads of
// our own need no check; see ExplainTermination().
absl::Status CheckSpareThreads(int spare = SpareThreads());

// The limits on the number of threads here, such as "RLIMIT_NPROC 100, pids.max 64,
// kernel.threads-max 127000".
std::string ThreadLimits();

// From now on, a process that cannot go on, above all for lack of a thread, logs one line that says
// so before it ends.
void ExplainTermination();

}  // namespace remesh::service
