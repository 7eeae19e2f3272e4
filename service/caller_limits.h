// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_builder.h>

namespace remesh::service {

// Limits what one caller, whoever it is, may take of a gRPC server:
// - calls at once over one connection;
// - no compressed messages, because gRPC inflates them before it checks their size;
// - bytes that are read at once, see BoundReads();
// - threads of gRPC's synchronous services (each reflection call takes one).
void LimitCallers(grpc::ServerBuilder& builder);

// Makes gRPC heed the limit of bytes that are read at once. Versions 1.50 to 1.52 do so only if the
// environment variable GRPC_EXPERIMENTS says so. Otherwise they make buffers for as much as came
// without a pause before, and abort the process when that was 2 GiB; so do 1.53 to 1.57, in any case
// (https://github.com/grpc/grpc/pull/34003). gRPC reads the variable once, so this is to be called
// before all else of gRPC, while no other thread reads the environment.
void BoundReads();

}  // namespace remesh::service
