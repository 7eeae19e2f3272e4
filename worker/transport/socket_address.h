// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// A numeric IP address with a port, as the socket calls want it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// "10.0.0.7:4711" or "[fd00::7]:4711". INVALID_ARGUMENT (field "address") for anything else.
absl::StatusOr<SocketAddress> ParseSocketAddress(const std::string& text);

// INVALID_ARGUMENT (field "bind_address") unless `ip` is a numeric address.
absl::StatusOr<SocketAddress> MakeSocketAddress(const std::string& ip, uint16_t port);

// The inverse of ParseSocketAddress.
std::string FormatSocketAddress(const SocketAddress& address);

// The addresses of `peers`, in their order. INVALID_ARGUMENT naming the first that is none.
absl::StatusOr<std::vector<SocketAddress>> AddressesOf(const std::vector<Peer>& peers);

// Name of the network interface that has the address, or "" when none has.
std::string InterfaceOf(const SocketAddress& address);

}  // namespace remesh::worker
