// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

struct TcpOptions {
  std::string bind_address = "127.0.0.1";  // numeric IPv4 or IPv6 of the data NIC; peers dial it
  uint16_t port = 0;                       // 0: any free one
  // Limits on what strangers can take: connections that have not proved themselves, in all and from
  // one address, and the time for their handshake.
  int unproved_max = 256;
  int unproved_per_address_max = 32;
  std::chrono::milliseconds handshake_timeout{2000};
  // How long a peer may take to answer before it is lost. A peer that answers that its group is not
  // open yet is asked again for as long as our group is open.
  std::chrono::milliseconds dial_timeout{10000};
};

// TCP over the worker's own sockets. A host dials every peer with which it has an operation. Both
// prove that they know the attempt's tokens (tcp_handshake.h) before anything else is read.
// Receivers say what they wait for; senders send that and nothing more, straight from and to the
// buffers of the operations. A Send() that ends OK means that the kernel has the data; only the
// receiver knows that they have arrived. A peer that aborts its group, or breaks the protocol, is
// lost to the others.
//
// Errors: INVALID_ARGUMENT for options that name no usable address; UNAVAILABLE if it cannot
// listen.
absl::StatusOr<std::unique_ptr<Transport>> NewTcpTransport(const TcpOptions& options);

}  // namespace remesh::worker
