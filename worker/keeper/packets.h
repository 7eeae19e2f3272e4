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

inline constexpr uid_t kUnknownUser = -1;

// One packet on a Unix socket of type SOCK_SEQPACKET: some bytes and at most one file descriptor
// (unix(7), SCM_RIGHTS). A packet arrives whole or not at all.
struct Packet {
  std::string bytes;
  Fd fd = Fd();
  uid_t uid = kUnknownUser;  // see UserAt()
};

// The user at the other end of a Unix socket at the time it was connected, as the kernel reports it
// (SO_PEERCRED), or kUnknownUser.
uid_t UserAt(int socket);

// Sends one packet. `fd` may be -1 for none; the caller keeps it. UNAVAILABLE (errno's text) if the
// other end is gone or does not read.
absl::Status SendPacket(int socket, std::string_view bytes, int fd);

// Receives one packet, waiting for at most the socket's own timeout. UNAVAILABLE if the other end
// is gone, DEADLINE_EXCEEDED after the timeout, INVALID_ARGUMENT for a packet above `max_bytes` or
// with more than one descriptor. The descriptors of such a packet are put into `left_over`, or
// closed if that is null.
absl::StatusOr<Packet> ReceivePacket(int socket, size_t max_bytes,
                                     std::vector<Fd>* left_over = nullptr);

// As ListenAt() and ConnectTo(), for type SOCK_SEQPACKET.
absl::StatusOr<Fd> ListenForPackets(const std::string& path, int mode, const std::string& field);
absl::StatusOr<Fd> ConnectForPackets(const std::string& path);

}  // namespace remesh::worker
