// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/values/records.h"

namespace remesh::server {

// The device id by which a worker asks the server to choose one.
inline constexpr int64_t kAssignedDeviceId = -1;
// Whether the worker leaves the ids of its devices to the server: all are kAssignedDeviceId.
bool WantsDeviceIds(const v1::Register& registration);

// Ids of devices that the server assigned, by host. A host keeps its ids. No id is ever given to
// another host, not even when its owner is forgotten. Not thread-safe.
class DeviceIds {
 public:
  // `kept_max`: ids to keep in all. Beyond it, hosts that are no longer known lose theirs.
  explicit DeviceIds(size_t kept_max = 100'000) : kept_max_(kept_max) {}

  // Restores the journal's ids. Ids that states name are never assigned either, because their hosts
  // may come back with them.
  void Restore(const Restored& restored);

  // The number of ids that the host has; nullopt when it never got one.
  std::optional<size_t> CountOf(const std::string& host) const;
  // Returns the host's ids in local order: the first `count` of those that it has, then new ones
  // that are not `taken`. Adds to `records` what must be on disk before the host is answered.
  std::vector<int64_t> Assign(const std::string& host, int count,
                              absl::FunctionRef<bool(int64_t)> taken,
                              absl::FunctionRef<bool(const std::string&)> known,
                              std::vector<Record>& records);
  // The host that the id was assigned to; null: none.
  const std::string* OwnerOf(int64_t id) const;
  size_t size() const { return owners_.size(); }
  void Forget(const std::string& host, std::vector<Record>& records);

 private:
  void SetIds(const std::string& host, std::vector<int64_t> ids);
  void MakeRoom(absl::FunctionRef<bool(const std::string&)> known, std::vector<Record>& records);

  const size_t kept_max_;
  int64_t next_ = 0;  // only rises
  std::map<std::string, std::vector<int64_t>> ids_;
  absl::flat_hash_map<int64_t, std::string> owners_;
  absl::flat_hash_set<int64_t> named_;  // ids that states named when the server started
};

}  // namespace remesh::server
