// SPDX-License-Identifier: Apache-2.0
#include "worker/store/handle_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/random_bytes.h"

namespace remesh::worker {

namespace {

std::string NewToken() {
  constexpr size_t kTokenBytes = 16;
  return absl::BytesToHexString(RandomBytes(kTokenBytes));
}

}  // namespace

std::string HandleTable::Offer(std::shared_ptr<const Fd> handle) {
  std::string token = NewToken();
  absl::MutexLock lock(&mutex_);
  std::erase_if(handles_, [](const auto& entry) { return entry.second.expired(); });
  handles_.emplace(token, std::move(handle));
  return token;
}

std::shared_ptr<const Fd> HandleTable::Find(std::string_view token) const {
  absl::MutexLock lock(&mutex_);
  const auto it = handles_.find(token);
  return it == handles_.end() ? nullptr : it->second.lock();
}

std::string HandleTable::Bring(Fd handle, uid_t uid, absl::Time now) {
  std::string token = NewToken();
  CloseOld(now);
  absl::MutexLock lock(&mutex_);
  brought_.push_back({token, std::move(handle), uid, now});
  if (brought_.size() > kBroughtMax) DropOldestOfBusiest(uid);
  return token;
}

absl::Duration HandleTable::CloseOld(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(brought_, [&](const Brought& one) { return now - one.since > kBroughtAge; });
  if (brought_.empty()) return absl::InfiniteDuration();
  return brought_.front().since + kBroughtAge + absl::Milliseconds(1) - now;
}

void HandleTable::DropOldestOfBusiest(uid_t newcomer) {
  std::map<uid_t, size_t> counts;
  for (const Brought& one : brought_) ++counts[one.uid];
  const auto busiest = std::ranges::max_element(
      counts, {}, [&](const auto& user) { return std::pair(user.second, user.first == newcomer); });
  brought_.erase(std::ranges::find(brought_, busiest->first, &Brought::uid));
}

Fd HandleTable::Take(std::string_view token, absl::Time now) {
  CloseOld(now);
  absl::MutexLock lock(&mutex_);
  for (auto it = brought_.begin(); it != brought_.end(); ++it) {
    if (it->token != token) continue;
    Fd handle = std::move(it->handle);
    brought_.erase(it);
    return handle;
  }
  return Fd();
}

}  // namespace remesh::worker
