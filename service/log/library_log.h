// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::service {

// Writes gRPC's log lines to our log: msg=gRPC cause="..." at=file:line. GRPC_VERBOSITY sets how
// much gRPC logs, errors by default. Most gRPC errors are a peer's doing, so they become warnings.
void LogGrpcAsOurs();

}  // namespace remesh::service
