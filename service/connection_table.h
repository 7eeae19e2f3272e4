// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace remesh {

// Descriptors that connections leave to files and everything else: few enough to be had even when
// the limit is low.
constexpr int kReservedDescriptors = 256;

// Raises this process's limit of open files to what it may have. Returns the lowest descriptor
// that no connection may keep: the kernel gives out the lowest that is free, so that one from here
// on means that all below are in use, and those above stay free for what is not a connection.
int RaiseDescriptorLimit();

// Who connected, as far as limits go: the IPv4 address, the /64 of an IPv6 one, the user at the
// other end of a Unix socket.
std::string AddressOf(int connection);

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

 private:
  struct Entry {
    ino_t socket = 0;
    std::string address;
  };
  void Remove(int fd);

  const int per_address_max_;
  absl::flat_hash_map<int, Entry> entries_;
  absl::flat_hash_map<std::string, std::set<int>> by_address_;
};

}  // namespace remesh
