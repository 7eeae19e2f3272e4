// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace remesh::service {

// Descriptors that connections leave to files and everything else: few enough to be had even when
// the limit is low.
constexpr int kReservedDescriptors = 256;

// Raises this process's limit of open files to what it may have. Returns the lowest descriptor
// that no connection may keep: the kernel gives out the lowest that is free, so that one from here
// on means that all below are in use, and the `reserved` ones above stay free for others.
int RaiseDescriptorLimit(int reserved = kReservedDescriptors);

// Who connected, as far as limits go: the IPv4 address, the /64 of an IPv6 one, the user at the
// other end of a Unix socket.
std::string AddressOf(int connection);

// The same of an IPv6 address as text, which is left as it is when it is none.
std::string NetworkOfIpv6(const std::string& address);

// The other end of a connection as grpc::ServerContext::peer() names it where gRPC was given the
// descriptor: "ipv4:1.2.3.4:5", "ipv6:%5B::1%5D:5", "fd:7" for a Unix socket.
std::string PeerOf(int connection);

// Which socket a descriptor stands for, unlike any other while it is open; 0: none.
ino_t SocketOf(int fd);

// Which accepted connections are open, by address. Whoever closes one need not say so: what a
// descriptor stands for is looked up again when an address has too many. Not thread-safe.
class ConnectionTable {
 public:
  explicit ConnectionTable(int per_address_max) : per_address_max_(per_address_max) {}

  // Takes the connection in unless its address has as many open as it may have.
  bool Admit(int fd, const std::string& address);
  // Those of an address that are open.
  int Count(const std::string& address);
  // Forget a connection and return it for the caller to end; nullopt: there is none.
  // That of this peer (see PeerOf).
  std::optional<int> Take(const std::string& peer);
  // The one of which most has been read since MarkRead(), where that is much. Not the one with most to
  // read: that is whoever is not read because of another. (A Unix socket tells only that.)
  std::optional<int> TakeMostRead();
  void MarkRead();
  // The one that came last of those of the address with most; nullopt too where that would not leave it
  // more than `newcomer` has then.
  std::optional<int> TakeNewestOfBusiest(const std::string& newcomer);

 private:
  struct Entry {
    ino_t socket = 0;
    std::string address;
    std::string peer;
    uint64_t order = 0;  // rises
    uint64_t read = 0;   // bytes, at MarkRead()
  };
  using Descriptors = std::map<uint64_t, int>;  // oldest first
  void Remove(int fd);
  int Taken(int fd);

  const int per_address_max_;
  absl::flat_hash_map<int, Entry> entries_;
  absl::flat_hash_map<std::string, Descriptors> by_address_;
  uint64_t next_order_ = 1;
};

}  // namespace remesh::service
