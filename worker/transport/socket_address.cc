// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/text/host_port.h"

namespace remesh::worker {
namespace {

const void* HostBytes(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    return &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  }
  return &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
}

size_t HostSize(int family) { return family == AF_INET6 ? sizeof(in6_addr) : sizeof(in_addr); }

}  // namespace

absl::StatusOr<SocketAddress> MakeSocketAddress(const std::string& ip, uint16_t port) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, ip.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.length = sizeof(*v4);
  } else if (inet_pton(AF_INET6, ip.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.length = sizeof(*v6);
  } else {
    return InvalidField("bind_address", ip, "must be a numeric IPv4 or IPv6 address");
  }
  return address;
}

absl::StatusOr<SocketAddress> ParseSocketAddress(const std::string& text) {
  const absl::Status invalid =
      InvalidField("address", text, "must be like 10.0.0.7:4711 or [fd00::7]:4711");
  const std::optional<HostPort> split = SplitHostPort(text);
  if (!split || split->port == 0) return invalid;
  auto address = MakeSocketAddress(split->host, static_cast<uint16_t>(split->port));
  if (!address.ok()) return invalid;
  return address;
}

std::string FormatSocketAddress(const SocketAddress& address) {
  char ip[INET6_ADDRSTRLEN] = "";
  const int family = address.storage.ss_family;
  inet_ntop(family, HostBytes(address.get()), ip, sizeof(ip));
  if (family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    return absl::StrCat("[", ip, "]:", ntohs(v6->sin6_port));
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
  return absl::StrCat(ip, ":", ntohs(v4->sin_port));
}

absl::StatusOr<std::vector<SocketAddress>> AddressesOf(const std::vector<Peer>& peers) {
  std::vector<SocketAddress> addresses;
  for (size_t i = 0; i < peers.size(); ++i) {
    const absl::StatusOr<SocketAddress> address = ParseSocketAddress(peers[i].address);
    if (!address.ok()) return AtField(absl::StrCat("peers[", i, "]"), address.status());
    addresses.push_back(*address);
  }
  return addresses;
}

std::string InterfaceOf(const SocketAddress& address) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return "";
  std::string name;
  const int family = address.storage.ss_family;
  for (const ifaddrs* it = first; it != nullptr && name.empty(); it = it->ifa_next) {
    if (it->ifa_addr == nullptr || it->ifa_addr->sa_family != family) continue;
    if (std::memcmp(HostBytes(it->ifa_addr), HostBytes(address.get()), HostSize(family)) == 0) {
      name = it->ifa_name;
    }
  }
  freeifaddrs(first);
  return name;
}

}  // namespace remesh::worker
