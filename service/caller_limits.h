// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_builder.h>

namespace remesh::service {

// Limits what one caller, whoever it is, may take of a gRPC server:
// - calls at once over one connection;
// - no compressed messages, because gRPC inflates them before it checks their size;
// - threads of gRPC's synchronous services (each reflection call takes one).
void LimitCallers(grpc::ServerBuilder& builder);

}  // namespace remesh::service
