// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

struct UcxOptions {
  std::string bind_address =
      "127.0.0.1";    // numeric IPv4 or IPv6 of the data NIC; peers dial it, so not the wildcard
  uint16_t port = 0;  // 0: any free one
  std::string tls = "tcp";  // UCX_TLS, e.g. "rc,ud,tcp" where there is InfiniBand or RoCE
  std::string net_devices;  // UCX_NET_DEVICES; empty: with TCP alone, the interface of
                            // bind_address, else all
  int64_t rendezvous_bytes =
      16 << 10;  // longer messages are received straight into place, shorter ones copied on arrival
  // Limit on the bytes of short messages sent to a peer that it has not reported as received.
  // Beyond it, short messages are sent like longer ones.
  int64_t ahead_bytes_max = PeerGroup::kAheadBytesMax;
  // Limit on the bytes of a peer's messages that wait for their Receive(). A peer that sends more
  // is lost.
  int64_t held_bytes_max = 64 << 20;
};

// Active messages of UCX over connections made by address. A host dials every peer with which it
// has an operation, and shows both tokens. Messages follow once the peer's group has accepted the
// tokens, so a peer that knows no token reaches no memory. There is no encryption: run it on a
// network that is trusted or encrypted itself. A Send() that ends OK means that UCX no longer needs
// the data; only the receiver knows that they have arrived. A peer that aborts its group is lost to
// the others. UCX_* in the environment may set what these options do not.
//
// Errors: INVALID_ARGUMENT for options that name no usable address; UNAVAILABLE if UCX cannot start
// or listen.
absl::StatusOr<std::unique_ptr<Transport>> NewUcxTransport(const UcxOptions& options);

}  // namespace remesh::worker
