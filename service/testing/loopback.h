// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <string>

#include "base/fd.h"

namespace remesh::service {

// Reads until the other side closes, or has sent nothing for as long as the socket waits.
inline std::string ReadToEnd(const Fd& fd) {
  std::string read;
  char buffer[65536];
  for (ssize_t n; (n = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;)
    read.append(buffer, static_cast<size_t>(n));
  return read;
}

// Reads from the socket wait at most 20 s.
inline void SetPatience(const Fd& fd) {
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

// A connection to a port from the address `from` of loopback; empty if it is refused. Reads from it
// wait at most 20 s. receive_buffer: of the socket, in bytes; 0: the kernel's choice.
inline Fd ConnectTo(int port, const char* from = "127.0.0.1", int receive_buffer = 0) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SetPatience(fd);
  if (receive_buffer != 0)
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  sockaddr_in address{};
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  address.sin_family = AF_INET;
  EXPECT_EQ(inet_pton(AF_INET, from, &address.sin_addr), 1);
  const int on = 1;  // connect() chooses the port: those of earlier connections may serve again
  setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  EXPECT_EQ(bind(fd.get(), generic, sizeof(address)), 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd.get(), generic, sizeof(address)) != 0) fd.Reset();
  return fd;
}

// Both ends of a connection from an address of loopback. The server's does not block.
struct LoopbackPair {
  explicit LoopbackPair(const char* from = "127.0.0.1") {
    const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    socklen_t length = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener.get(), generic, length), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), generic, &length), 0);
    client = ConnectTo(ntohs(address.sin_port), from);
    server = Fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }

  Fd client, server;
};

}  // namespace remesh::service
