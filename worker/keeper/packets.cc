// SPDX-License-Identifier: Apache-2.0
#include "worker/keeper/packets.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/keeper/unix_listener.h"

namespace remesh::worker {
namespace {

// The most descriptors that the kernel lets a process send at once (SCM_MAX_FD). The kernel closes
// those that do not fit into the buffer, on the thread that receives.
constexpr size_t kDescriptorsMax = 253;

absl::Status Unavailable(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

std::vector<Fd> DescriptorsOf(msghdr& message) {
  std::vector<Fd> found;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    std::vector<int> fds((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(fds.data(), CMSG_DATA(part), fds.size() * sizeof(int));
    for (const int fd : fds) found.emplace_back(fd);
  }
  return found;
}

}  // namespace

uid_t UserAt(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  const bool known = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
  return known ? peer.uid : kUnknownUser;
}

absl::Status SendPacket(int socket, std::string_view bytes, int fd) {
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &fd, sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return Unavailable("sending");
}

absl::StatusOr<Packet> ReceivePacket(int socket, size_t max_bytes, std::vector<Fd>* left_over) {
  Packet packet;
  packet.bytes.resize(max_bytes);
  iovec data{packet.bytes.data(), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsMax)> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t received;
  do {
    received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return absl::DeadlineExceededError("no answer in time");
  if (received < 0) return Unavailable("receiving");
  std::vector<Fd> fds = DescriptorsOf(message);
  if (received == 0 && fds.empty()) return absl::UnavailableError("the other end has closed");
  const bool cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  if (cut || fds.size() > 1) {
    if (left_over != nullptr) std::move(fds.begin(), fds.end(), std::back_inserter(*left_over));
    return absl::InvalidArgumentError("a packet that is too large");
  }
  packet.bytes.resize(static_cast<size_t>(received));
  packet.uid = UserAt(socket);
  if (!fds.empty()) packet.fd = std::move(fds.front());
  return packet;
}

absl::StatusOr<Fd> ListenForPackets(const std::string& path, int mode, const std::string& field) {
  return ListenAt(path, SOCK_SEQPACKET, mode, field);
}

absl::StatusOr<Fd> ConnectForPackets(const std::string& path) {
  return ConnectTo(path, SOCK_SEQPACKET);
}

}  // namespace remesh::worker
