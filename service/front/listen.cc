// SPDX-License-Identifier: Apache-2.0
#include "service/front/listen.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/host_port.h"

namespace remesh::service {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::Status Failed(const std::string& address, const std::string& cause) {
  return MakeError(
      absl::StatusCode::kUnavailable,
      absl::StrCat("listen_address: cannot listen on ", address, ": ", cause),
      {.reason = "LISTEN_FAILED",
       .metadata = {{"field", "listen_address"}, {"listen_address", address}, {"cause", cause}}});
}

absl::StatusOr<AddressList> Resolve(const std::string& address) {
  const std::optional<HostPort> split = SplitHostPort(address);
  if (!split) return Failed(address, "must be HOST:PORT");
  const std::string host = split->host == "0.0.0.0" ? "::" : split->host;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(split->port).c_str(), &hints, &found);
  if (error != 0) return Failed(address, gai_strerror(error));
  return AddressList(found, freeaddrinfo);
}

// Limits how much a connection that is being ended can still make us read; calls are short. Enough
// for 2.5 Gbit/s at a round trip of a millisecond.
constexpr int kReceiveBytes = 256 << 10;

bool IsAny6(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

void Set(const Fd& fd, int level, int option, int value) {
  setsockopt(fd.get(), level, option, &value, sizeof(value));
}

in_port_t& PortOf(sockaddr* address) {
  return address->sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(address)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(address)->sin_port;
}

// Accepted connections inherit these options. Returns no descriptor, and sets errno, on failure.
Fd ListenAt(const sockaddr* address, socklen_t length, std::chrono::nanoseconds user_timeout) {
  Fd fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fd;
  Set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  Set(fd, SOL_SOCKET, SO_RCVBUF, kReceiveBytes);
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(user_timeout.count() / 1'000'000));
  if (address->sa_family == AF_INET6) Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, !IsAny6(address));
  if (bind(fd.get(), address, length) != 0 || listen(fd.get(), SOMAXCONN) != 0) fd.Reset();
  return fd;
}

}  // namespace

absl::StatusOr<Listeners> ListenOn(const std::string& address,
                                   std::chrono::nanoseconds user_timeout) {
  ASSIGN_OR_RETURN(const AddressList found, Resolve(address));
  Listeners listeners;
  int error = 0;
  for (addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    // Later sockets use the port that the first one got.
    if (listeners.port != 0) PortOf(at->ai_addr) = htons(static_cast<uint16_t>(listeners.port));
    Fd fd = ListenAt(at->ai_addr, at->ai_addrlen, user_timeout);
    if (!fd && IsAny6(at->ai_addr)) {  // a machine without IPv6
      sockaddr_in any4{};
      any4.sin_family = AF_INET;
      any4.sin_port = PortOf(at->ai_addr);
      fd = ListenAt(reinterpret_cast<const sockaddr*>(&any4), sizeof(any4), user_timeout);
    }
    if (!fd) {
      error = errno;
      continue;
    }
    sockaddr_storage bound{};
    socklen_t length = sizeof(bound);
    if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) continue;
    listeners.port = ntohs(PortOf(reinterpret_cast<sockaddr*>(&bound)));
    listeners.sockets.push_back(std::move(fd));
  }
  if (listeners.sockets.empty()) return Failed(address, std::strerror(error));
  return listeners;
}

}  // namespace remesh::service
