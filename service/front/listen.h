// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace remesh::service {

// Sockets that listen for one address; several if its host name resolves to several addresses.
struct Listeners {
  std::vector<Fd> sockets;  // nonblocking
  int port = 0;             // the same for all
};

// `address` is HOST:PORT, with IPv6 in brackets. Resolves host names here; port 0 takes a free
// port. 0.0.0.0 and [::] both mean every address of both families. A connection ends when its data
// stays unacknowledged for `user_timeout`. UNAVAILABLE (LISTEN_FAILED) with the cause.
absl::StatusOr<Listeners> ListenOn(const std::string& address,
                                   std::chrono::nanoseconds user_timeout);

}  // namespace remesh::service
