// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>

namespace remesh::server {

// The caller whose turn a call takes where callers share threads. This function alone decides which
// calls count as one caller's: those of the same authenticated identity, or, without one, those of
// the same peer address. The port does not count, so opening more connections gains a client
// nothing; of an IPv6 address only the /64 counts, because one owner has all of it.
std::string CallerOf(const grpc::ServerContextBase& context);

// The caller of work that runs on behalf of a state: the state's job.
std::string CallerOfState(std::string_view state);

// The address in gRPC's name of a peer: "10.0.0.7" for "ipv4:10.0.0.7:4711", "2001:db8::/64" for
// "ipv6:%5B2001:db8::7%5D:4711". Returns a name that has no port unchanged.
std::string AddressOfPeer(std::string_view peer);

}  // namespace remesh::server
