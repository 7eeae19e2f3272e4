// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::service {

// What gRPC has to say becomes lines of our log: msg=gRPC cause="..." at=file:line. How much it
// says is GRPC_VERBOSITY's, errors by default; most of those are some peer's doing, thus warnings.
void LogGrpcAsOurs();

}  // namespace remesh::service
