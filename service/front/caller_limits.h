// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_builder.h>

#include <cstddef>

namespace remesh::service {

inline constexpr size_t kCallersMemory = size_t{2} << 30;

// Limits what callers may take of a gRPC server, each one of
// - calls at once over one connection;
// - no compressed messages, because gRPC inflates them before it checks their size;
// - bytes that are read at once, see BoundReads();
// - threads of gRPC's synchronous services (each reflection call takes one);
// and all together of gRPC's memory. At that limit gRPC cancels calls, whose they are, so it is a
// last resort: for requests, and for headers before they are requests.
void LimitCallers(grpc::ServerBuilder& builder, size_t memory_bytes = kCallersMemory);

// Makes gRPC heed the limit of bytes that are read at once. Versions 1.50 to 1.52 do so only if the
// environment variable GRPC_EXPERIMENTS says so. Otherwise they make buffers for as much as came
// without a pause before, and abort the process when that was 2 GiB; so do 1.53 to 1.57, in any
// case (https://github.com/grpc/grpc/pull/34003). gRPC reads the variable once, so this is to be
// called before all else of gRPC, while no other thread reads the environment.
void BoundReads();

}  // namespace remesh::service
