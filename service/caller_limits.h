// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_builder.h>

namespace remesh::service {

// What one caller may have of a gRPC server, whoever it is:
// - calls at once over one connection;
// - no compressed messages, which gRPC inflates before it looks at how large they are;
// - threads of gRPC's synchronous services (reflection takes one a call).
void LimitCallers(grpc::ServerBuilder& builder);

}  // namespace remesh::service
