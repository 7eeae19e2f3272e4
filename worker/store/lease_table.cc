// SPDX-License-Identifier: Apache-2.0
#include "worker/store/lease_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/random_bytes.h"

namespace remesh::worker {

std::optional<std::string> LeaseTable::Begin(uid_t user) {
  constexpr size_t kTokenBytes = 16;
  std::string token = absl::BytesToHexString(RandomBytes(kTokenBytes));
  absl::MutexLock lock(&mutex_);
  Sweep();
  const auto of_user = std::count_if(leases_.begin(), leases_.end(), [user](const auto& entry) {
    return entry.second->user() == user;
  });
  if (leases_.size() >= kMax || static_cast<size_t>(of_user) >= kMaxOfUser) return std::nullopt;
  leases_.emplace(token, std::make_shared<Lease>(user));
  return token;
}

void LeaseTable::End(std::string_view token) {
  absl::MutexLock lock(&mutex_);
  const auto it = leases_.find(token);
  if (it == leases_.end()) return;
  it->second->ended_ = true;
  Sweep();
}

void LeaseTable::Sweep() {
  std::erase_if(leases_, [](const auto& entry) {
    const std::shared_ptr<Lease>& lease = entry.second;
    return lease->ended() && lease.use_count() == 1;
  });
}

std::shared_ptr<const Lease> LeaseTable::Find(std::string_view token) const {
  absl::MutexLock lock(&mutex_);
  const auto it = leases_.find(token);
  return it == leases_.end() || it->second->ended() ? nullptr : it->second;
}

std::optional<bool> LeaseTable::Held(std::string_view token) const {
  absl::MutexLock lock(&mutex_);
  const auto it = leases_.find(token);
  if (it == leases_.end()) return std::nullopt;
  return it->second.use_count() > 1;
}

}  // namespace remesh::worker
