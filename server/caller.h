// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>

namespace remesh {

// Whose turn a call takes where callers share threads: the one place that says who is the same
// caller. An authenticated identity, else the peer's address without its port, so that nobody gains
// by opening connections.
std::string CallerOf(const grpc::ServerContextBase& context);

// For what runs on behalf of a state: its job.
std::string CallerOfState(std::string_view state);

// "ipv4:10.0.0.7" of "ipv4:10.0.0.7:4711"; what has no port, unchanged.
std::string WithoutPort(std::string_view peer);

}  // namespace remesh
