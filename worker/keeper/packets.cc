// SPDX-License-Identifier: Apache-2.0
#include "worker/keeper/packets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

// More than one: all that came must be closed.
constexpr size_t kDescriptorsMax = 8;

absl::Status Unavailable(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<sockaddr_un> AddressAt(const std::string& path, const std::string& field) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return InvalidField(field, path,
                        absl::StrCat("must be of 1 to ", sizeof(address.sun_path) - 1, " bytes"));
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

absl::StatusOr<Fd> ConnectTo(const sockaddr_un& address) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Unavailable(absl::StrCat("connecting to ", address.sun_path));
  return fd;
}

absl::Status MakeRoom(const sockaddr_un& address, const std::string& field) {
  const std::string path = address.sun_path;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::absolute(path).parent_path(), ignored);
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode))
    return InvalidField(field, path, "must not be something other than a socket");
  if (ConnectTo(address).ok())
    return InvalidField(field, path, "must not be in use by another process");
  unlink(path.c_str());
  return absl::OkStatus();
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

absl::StatusOr<Packet> ReceivePacket(int socket, size_t max_bytes) {
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
  if (cut || fds.size() > 1) return absl::InvalidArgumentError("a packet that is too large");
  packet.bytes.resize(static_cast<size_t>(received));
  if (!fds.empty()) packet.fd = std::move(fds.front());
  return packet;
}

absl::StatusOr<Fd> ListenForPackets(const std::string& path, int mode, const std::string& field) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressAt(path, field));
  RETURN_IF_ERROR(MakeRoom(address, field));
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The socket must never be there with more rights than it is to have.
  const mode_t before = umask(0777 & ~mode);
  const bool bound =
      fd && bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  umask(before);
  if (bound && chmod(path.c_str(), mode) == 0 && listen(fd.get(), SOMAXCONN) == 0) return fd;
  return InvalidField(
      field, path,
      absl::StrCat("must be a place where a socket can be made: ", std::strerror(errno)));
}

absl::StatusOr<Fd> ConnectForPackets(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressAt(path, "path"));
  return ConnectTo(address);
}

}  // namespace remesh::worker
