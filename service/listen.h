// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace remesh::service {

// Sockets that listen for one address: several where its name has several.
struct Listeners {
  std::vector<Fd> sockets;  // nonblocking
  int port = 0;             // all the same
};

// `address` is HOST:PORT, IPv6 in brackets, names as they resolve here; port 0 takes a free one.
// 0.0.0.0 and [::] both mean every address of both families. Data that stays unacknowledged for
// `user_timeout` ends a connection. UNAVAILABLE (LISTEN_FAILED) with the cause.
absl::StatusOr<Listeners> ListenOn(const std::string& address,
                                   std::chrono::nanoseconds user_timeout);

}  // namespace remesh::service
