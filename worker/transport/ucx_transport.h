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
  int64_t ahead_bytes_max =
      PeerGroup::kAheadBytesMax;  // of short messages on the way to a peer that it has not said to
                                  // have received; more go like longer ones
  int64_t held_bytes_max = 64 << 20;  // of messages a peer may have waiting for their Receive(); a
                                      // peer that sends more than it may is lost
};

// Active messages of UCX over connections made by address. A host dials every peer that it has an
// operation with and shows both tokens; messages follow once the peer's group has accepted them, so
// a peer that knows no token reaches no memory. There is no encryption: run it on a network that is
// trusted or encrypted itself. OK of a Send() means that UCX no longer needs the data; only the
// receiver knows that they have arrived. A peer that aborts its group is lost to the others. What
// these options do not set, UCX_* in the environment may.
//
// Errors: INVALID_ARGUMENT for options that name no usable address; UNAVAILABLE when UCX cannot
// start or listen.
absl::StatusOr<std::unique_ptr<Transport>> NewUcxTransport(const UcxOptions& options);

}  // namespace remesh::worker
