// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/replicas.h"

#include <algorithm>

#include "planner/values/budget.h"
#include "planner/values/coverage.h"

namespace remesh::server {
namespace {

// Limits what the controller's strand does in one go: some 32,000 regions of explicit boxes.
constexpr int kLooksMax = 512;

planner::Budget SmallBudget() {
  return planner::Budget([looks = 0]() mutable {
    return ++looks < kLooksMax ? absl::OkStatus() : absl::ResourceExhaustedError("too intricate");
  });
}

std::vector<int32_t> PositionsOn(const planner::DeviceList& devices,
                                 const std::vector<int64_t>& lost) {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (std::binary_search(lost.begin(), lost.end(), devices[i]))
      positions.push_back(static_cast<int32_t>(i));
  }
  return positions;
}

}  // namespace

bool CoveredWithout(const PlacedState& placed, const std::set<std::string>& lost) {
  if (placed.layout == nullptr) return false;
  const std::vector<int64_t> devices = DevicesOf(placed, lost);
  planner::Budget budget = SmallBudget();
  for (const proto::PlacedArray& array : placed.layout->arrays) {
    const std::vector<int32_t> positions = PositionsOn(*array.placement.devices, devices);
    if (positions.empty()) continue;
    if (!planner::CheckCovers(*array.placement.layout, positions, budget).ok()) return false;
  }
  return true;
}

std::vector<int64_t> DevicesOf(const PlacedState& placed, const std::set<std::string>& hosts) {
  std::vector<int64_t> ids;
  for (const std::string& host : hosts) {
    const auto part = placed.hosts.find(host);
    if (part == placed.hosts.end()) continue;
    const HostDevices& devices = part->second.devices;
    for (const int32_t local : devices.local_devices) ids.push_back(devices.device_ids[local]);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool Replicas::CoverWithout(const std::shared_ptr<const PlacedState>& placed,
                            const std::set<std::string>& lost) {
  const bool of_this = placed_ == placed;
  const bool fewer = std::includes(lost_.begin(), lost_.end(), lost.begin(), lost.end());
  const bool more = std::includes(lost.begin(), lost.end(), lost_.begin(), lost_.end());
  if (of_this && (covered_ ? fewer : more)) return covered_;
  placed_ = placed;
  lost_ = lost;
  covered_ = CoveredWithout(*placed, lost);
  ++computed_;
  return covered_;
}

}  // namespace remesh::server
