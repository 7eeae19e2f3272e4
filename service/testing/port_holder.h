// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"

namespace remesh::service {

// Keeps the port of a gRPC server on loopback while the server is away, so that no other process
// gets it. gRPC's ports may have several sockets.
class PortHolder {
 public:
  explicit PortHolder(int port) {
    const int on = 1;
    EXPECT_EQ(setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0);
  }

  // From now on connections may come here, all of them once the server is away.
  void Listen() const { EXPECT_EQ(listen(socket_.get(), 1), 0); }
  // Waits for a connection, and ends it. No other comes here then. REQUIRES: Listen().
  void RefuseOne() const {
    EXPECT_TRUE(Fd(accept(socket_.get(), nullptr, nullptr)));
    EXPECT_EQ(shutdown(socket_.get(), SHUT_RDWR), 0);
  }

 private:
  const Fd socket_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

}  // namespace remesh::service
