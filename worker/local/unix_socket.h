// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace remesh {

// Starts `builder`'s server on the Unix socket `path`, mode 0660. A socket that nobody listens on
// is replaced; INVALID_ARGUMENT (field "socket_path") for a path that is too long, that somebody
// listens on, or that is something else.
absl::StatusOr<std::unique_ptr<grpc::Server>> StartOnUnixSocket(grpc::ServerBuilder& builder,
                                                                const std::string& path);

}  // namespace remesh
