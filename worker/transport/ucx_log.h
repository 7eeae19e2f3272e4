// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::worker {

// What UCX has to say becomes lines of our log: msg=UCX cause="..." at=file:line. How much it says
// is UCX_LOG_LEVEL's, warnings by default; what it calls errors is mostly some peer's doing, thus
// warnings too.
void LogUcxAsOurs();

}  // namespace remesh::worker
