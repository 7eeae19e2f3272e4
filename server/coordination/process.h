// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace remesh::server::coordination {

// A process that is a member of a world, or wants to be.
struct Process {
  std::string nonce;  // proves that a later call is of the same process
  std::string host;
  int64_t pid = 0;
  int local_index = 0;  // among the processes of the world on that host
  std::vector<int64_t> device_ids;
  std::string data;  // for the other members
};

}  // namespace remesh::server::coordination
