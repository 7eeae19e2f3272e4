// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"

namespace remesh::worker {

// What goes over a Unix socket of type SOCK_SEQPACKET: some bytes, and a file descriptor or none
// (unix(7), SCM_RIGHTS). Whole, or not at all.
struct Packet {
  std::string bytes;
  Fd fd = Fd();
  uid_t uid = static_cast<uid_t>(-1);  // see UserAt()
};

// The user at the other end of a Unix socket as it was connected, as the kernel says (SO_PEERCRED);
// -1: unknown.
uid_t UserAt(int socket);

// fd: -1: none; it stays the caller's. UNAVAILABLE (errno's text) when the other end is gone or
// does not read.
absl::Status SendPacket(int socket, std::string_view bytes, int fd);

// Waits as long as the socket's own timeout says. UNAVAILABLE when the other end is gone,
// DEADLINE_EXCEEDED after the timeout, INVALID_ARGUMENT for a packet above `max_bytes` or with more
// than one descriptor. Those that are not the packet's are put into `left_over`, or closed if that is
// null.
absl::StatusOr<Packet> ReceivePacket(int socket, size_t max_bytes,
                                     std::vector<Fd>* left_over = nullptr);

// As ListenAt() and ConnectTo(), of that type.
absl::StatusOr<Fd> ListenForPackets(const std::string& path, int mode, const std::string& field);
absl::StatusOr<Fd> ConnectForPackets(const std::string& path);

}  // namespace remesh::worker
