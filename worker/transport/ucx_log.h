// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::worker {

// Turns UCX's messages into lines of the worker's log: msg=UCX cause="..." at=file:line.
// UCX_LOG_LEVEL says how much UCX logs, warnings by default. Most of what UCX calls errors is some
// peer's doing, so those become warnings too.
void LogUcxAsOurs();

}  // namespace remesh::worker
