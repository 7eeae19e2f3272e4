// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace remesh::server {

// Devices of workers: by host, rising local indices.
using DeviceSet = std::map<std::string, std::vector<int32_t>>;

// Decides which execution may use which devices: each device serves one execution at a time, in the
// order of asking. An execution that waits keeps its place on all its devices, so that small
// executions do not starve a large one. An execution asks for all devices of its hosts that have
// NCCL.
class DeviceLedger {
 public:
  // REQUIRES: `name` is not in the ledger.
  void Ask(const std::string& name, DeviceSet devices);
  // Gives the devices back, or withdraws the request. Ignores unknown names.
  void Release(const std::string& name);
  // Returns the executions whose turn has come, oldest first; each is returned once.
  std::vector<std::string> Admit();

 private:
  struct Claim {
    std::string name;
    DeviceSet devices;
    bool admitted = false;
    std::set<std::string> waits_for;  // older claims with some of these devices
  };
  std::list<Claim> claims_;  // by age
};

}  // namespace remesh::server
