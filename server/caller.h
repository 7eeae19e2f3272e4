// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>

namespace remesh::server {

// Whose turn a call takes where callers share threads: the one place that says who is the same
// caller. An authenticated identity, else the peer's address without its port, so that nobody gains
// by opening connections, and of an IPv6 address its /64, which one owner has whole.
std::string CallerOf(const grpc::ServerContextBase& context);

// For what runs on behalf of a state: its job.
std::string CallerOfState(std::string_view state);

// The address in gRPC's name of a peer: "10.0.0.7" of "ipv4:10.0.0.7:4711", "2001:db8::/64" of
// "ipv6:%5B2001:db8::7%5D:4711"; what has no port, unchanged.
std::string AddressOfPeer(std::string_view peer);

}  // namespace remesh::server
