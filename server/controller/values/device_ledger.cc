// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/device_ledger.h"

#include <algorithm>

namespace remesh::server {

void DeviceLedger::Ask(const std::string& name, std::set<DeviceKey> devices) {
  claims_.push_back({.name = name, .devices = std::move(devices)});
}

void DeviceLedger::Release(const std::string& name) {
  claims_.remove_if([&](const Claim& claim) { return claim.name == name; });
}

std::vector<std::string> DeviceLedger::Admit() {
  std::vector<std::string> admitted;
  std::set<DeviceKey> taken;
  for (Claim& claim : claims_) {
    const bool free = std::none_of(claim.devices.begin(), claim.devices.end(),
                                   [&](const DeviceKey& device) { return taken.contains(device); });
    if (free && !claim.admitted) {
      claim.admitted = true;
      admitted.push_back(claim.name);
    }
    taken.insert(claim.devices.begin(), claim.devices.end());
  }
  return admitted;
}

}  // namespace remesh::server
