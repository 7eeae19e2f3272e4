// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/device_ledger.h"

#include <algorithm>
#include <utility>

namespace remesh::server {
namespace {

// REQUIRES: both are sorted.
bool Overlap(const std::vector<int32_t>& some, const std::vector<int32_t>& others) {
  auto other = others.begin();
  for (const int32_t one : some) {
    other = std::lower_bound(other, others.end(), one);
    if (other == others.end()) return false;
    if (*other == one) return true;
  }
  return false;
}

// Looks at the hosts of the smaller set only: most executions are small.
bool Overlap(const DeviceSet& some, const DeviceSet& others) {
  if (some.size() > others.size()) return Overlap(others, some);
  return std::any_of(some.begin(), some.end(), [&](const auto& one) {
    const auto same_host = others.find(one.first);
    return same_host != others.end() && Overlap(one.second, same_host->second);
  });
}

}  // namespace

void DeviceLedger::Ask(const std::string& name, DeviceSet devices) {
  Claim claim{.name = name, .devices = std::move(devices)};
  for (const Claim& older : claims_) {
    if (Overlap(older.devices, claim.devices)) claim.waits_for.insert(older.name);
  }
  claims_.push_back(std::move(claim));
}

void DeviceLedger::Release(const std::string& name) {
  claims_.remove_if([&](const Claim& claim) { return claim.name == name; });
  for (Claim& claim : claims_) claim.waits_for.erase(name);
}

std::vector<std::string> DeviceLedger::Admit() {
  std::vector<std::string> admitted;
  for (Claim& claim : claims_) {
    if (claim.admitted || !claim.waits_for.empty()) continue;
    claim.admitted = true;
    admitted.push_back(claim.name);
  }
  return admitted;
}

}  // namespace remesh::server
