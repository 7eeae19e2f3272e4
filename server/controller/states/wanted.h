// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace remesh::server {

// Which hosts wait for which states, because their trainers asked. A host that asks for too many
// states stops waiting for the one that it asked for first; other hosts are not affected. Not
// thread-safe.
class Wanted {
 public:
  static constexpr size_t kOfHostMax = 1000;

  void Add(const std::string& host, const std::string& state);
  // In the order of their names.
  std::vector<std::string> HostsOf(const std::string& state) const;
  void DropHost(const std::string& host);
  void DropState(const std::string& state);

 private:
  void Drop(const std::string& host, const std::string& state);

  std::map<std::string, std::map<std::string, uint64_t>> by_state_;  // host -> when it asked first
  std::map<std::string, std::map<uint64_t, std::string>> by_host_;   // the same, oldest first
  uint64_t next_ = 0;
};

}  // namespace remesh::server
