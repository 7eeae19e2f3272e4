// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/device_ids.h"

#include <utility>

namespace remesh::server {

bool WantsDeviceIds(const v1::Register& registration) {
  return !registration.devices().empty() && registration.devices(0).id() == kAssignedDeviceId;
}

void DeviceIds::Restore(const Restored& restored) {
  next_ = restored.next_device_id;
  for (const auto& [host, ids] : restored.device_ids) SetIds(host, ids);
  for (const auto& [name, state] : restored.states) {
    for (const auto& [host, part] : state.placed->hosts) {
      named_.insert(part.devices.device_ids.begin(), part.devices.device_ids.end());
    }
  }
}

std::optional<size_t> DeviceIds::CountOf(const std::string& host) const {
  const auto ids = ids_.find(host);
  return ids == ids_.end() ? std::nullopt : std::optional<size_t>(ids->second.size());
}

std::vector<int64_t> DeviceIds::Assign(const std::string& host, int count,
                                       absl::FunctionRef<bool(int64_t)> taken,
                                       absl::FunctionRef<bool(const std::string&)> known,
                                       std::vector<Record>& records) {
  const auto had = ids_.find(host);
  std::vector<int64_t> ids = had == ids_.end() ? std::vector<int64_t>() : had->second;
  if (ids.size() == static_cast<size_t>(count)) return ids;
  if (ids.size() > static_cast<size_t>(count)) ids.resize(count);
  for (; ids.size() < static_cast<size_t>(count); ++next_) {
    if (!taken(next_) && !named_.contains(next_)) ids.push_back(next_);
  }
  SetIds(host, ids);
  records.push_back(DeviceIdsRecord(host, ids));
  records.push_back(NextDeviceIdRecord(next_));
  MakeRoom([&](const std::string& other) { return other == host || known(other); }, records);
  return ids;
}

const std::string* DeviceIds::OwnerOf(int64_t id) const {
  const auto owner = owners_.find(id);
  return owner == owners_.end() ? nullptr : &owner->second;
}

void DeviceIds::Forget(const std::string& host, std::vector<Record>& records) {
  if (!ids_.contains(host)) return;
  SetIds(host, {});
  ids_.erase(host);
  records.push_back(NoDeviceIdsRecord(host));
}

void DeviceIds::SetIds(const std::string& host, std::vector<int64_t> ids) {
  std::vector<int64_t>& own = ids_[host];
  for (const int64_t id : own) owners_.erase(id);
  for (const int64_t id : ids) owners_[id] = host;
  own = std::move(ids);
}

// Bounds the number of ids: hosts that attach without proof of identity could otherwise fill the
// journal with names.
void DeviceIds::MakeRoom(absl::FunctionRef<bool(const std::string&)> known,
                         std::vector<Record>& records) {
  std::vector<std::string> unknown;
  if (size() <= kept_max_) return;
  for (const auto& [host, ids] : ids_) {
    if (!known(host)) unknown.push_back(host);
  }
  for (const std::string& host : unknown) Forget(host, records);
}

}  // namespace remesh::server
