// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/fd.h"

namespace remesh::worker {

// Number of open descriptors of this process.
inline int OpenFiles() {
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++files;
  return files;
}

// Sends one packet of one byte with the descriptors `fds`.
inline void SendDescriptors(const Fd& connection, const std::vector<int>& fds) {
  char byte = 'x';
  iovec data{&byte, 1};
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  REMESH_CHECK(sendmsg(connection.get(), &message, MSG_NOSIGNAL) == 1);
}

// A TCP connection of this host. Closing the last descriptor of `slow` blocks until `other` is
// closed, for at most a minute: `slow` has bytes to send that are not read (SO_LINGER, socket(7)).
struct LingeringSocket {
  Fd slow, other;
};

inline LingeringSocket NewLingeringSocket() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof(address);
  const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REMESH_CHECK(bind(listener.get(), name, length) == 0 && listen(listener.get(), 1) == 0);
  REMESH_CHECK(getsockname(listener.get(), name, &length) == 0);
  LingeringSocket made{.slow = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), .other = Fd()};
  REMESH_CHECK(connect(made.slow.get(), name, length) == 0);
  made.other.Reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REMESH_CHECK(made.other);
  const linger patience{.l_onoff = 1, .l_linger = 60};
  REMESH_CHECK(setsockopt(made.slow.get(), SOL_SOCKET, SO_LINGER, &patience, sizeof(patience)) ==
               0);
  const std::string bytes(1 << 16, 'x');
  while (send(made.slow.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  return made;
}

// Whether `what` ends before the other end of a lingering socket is closed, so that nothing in
// `what` waits for closing it.
inline bool EndsBefore(LingeringSocket socket, const std::function<void()>& what) {
  absl::Notification ended;
  std::thread doing([&] {
    what();
    ended.Notify();
  });
  const bool in_time = ended.WaitForNotificationWithTimeout(absl::Seconds(10));
  socket.other.Reset();
  doing.join();
  return in_time;
}

}  // namespace remesh::worker
