// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace remesh::service {

// Addresses whose connections are refused for a while. Not thread-safe.
class AddressBars {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void Bar(const std::string& address, Time until);
  bool IsBarred(const std::string& address, Time now);
  // A connection of the address was ended for noise. Returns whether that has happened before: in
  // the last ten minutes, but not in the ten seconds in which one incident ends several
  // connections.
  bool NoteNoise(const std::string& address, Time now);

 private:
  struct Entry {
    Time until;
    Time noisy_from, noisy_until;  // noise in this time is not the first
  };
  void DropOld(Time now);

  absl::flat_hash_map<std::string, Entry> entries_;
};

}  // namespace remesh::service
