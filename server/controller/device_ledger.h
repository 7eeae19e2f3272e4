// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace remesh::server {

// A device of a worker: host and local index.
using DeviceKey = std::pair<std::string, int32_t>;

// Which execution may use which devices: each device serves one at a time, in the order of asking.
// An execution that waits holds its place on all its devices, so a large one is not starved by
// small ones. Where hosts exchange over NCCL, an execution asks for all devices of its hosts.
class DeviceLedger {
 public:
  // REQUIRES: `name` is not in the ledger.
  void Ask(const std::string& name, std::set<DeviceKey> devices);
  // Gives back, or asks no longer. Unknown names are ignored.
  void Release(const std::string& name);
  // Executions whose turn it is, by age; each is returned once.
  std::vector<std::string> Admit();

 private:
  struct Claim {
    std::string name;
    std::set<DeviceKey> devices;
    bool admitted = false;
  };
  std::list<Claim> claims_;  // by age
};

}  // namespace remesh::server
