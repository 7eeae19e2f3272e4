// SPDX-License-Identifier: Apache-2.0
#include "worker/store/handle_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/random_bytes.h"
#include "worker/keeper/busiest.h"

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
  const auto oldest = TooMany(uid);
  if (oldest == brought_.end()) return token;
  closer_.Close(std::move(oldest->handle));
  brought_.erase(oldest);
  return token;
}

std::deque<HandleTable::Brought>::iterator HandleTable::TooMany(uid_t newcomer) {
  if (brought_.size() > kBroughtMax) return OldestOfBusiest(brought_, newcomer);
  const auto taken = taken_.find(newcomer);
  if (taken == taken_.end()) return brought_.end();
  const auto is_theirs = [newcomer](const Brought& one) { return one.uid == newcomer; };
  const auto waiting = static_cast<size_t>(std::ranges::count_if(brought_, is_theirs));
  if (waiting + taken->second <= kBroughtMax) return brought_.end();
  return std::ranges::find_if(brought_, is_theirs);
}

absl::Duration HandleTable::CloseOld(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  for (Brought& one : brought_) {
    if (now - one.since > kBroughtAge) closer_.Close(std::move(one.handle));
  }
  std::erase_if(brought_, [](const Brought& one) { return !one.handle; });
  if (brought_.empty()) return absl::InfiniteDuration();
  return brought_.front().since + kBroughtAge + absl::Milliseconds(1) - now;
}

std::shared_ptr<const Fd> HandleTable::Take(std::string_view token, absl::Time now) {
  CloseOld(now);
  absl::MutexLock lock(&mutex_);
  for (auto it = brought_.begin(); it != brought_.end(); ++it) {
    if (it->token != token) continue;
    ++taken_[it->uid];
    std::shared_ptr<const Fd> handle(new Fd(std::move(it->handle)),
                                     [this, uid = it->uid](Fd* last) {
                                       GiveBack(std::move(*last), uid);
                                       delete last;
                                     });
    brought_.erase(it);
    return handle;
  }
  return nullptr;
}

void HandleTable::GiveBack(Fd handle, uid_t uid) {
  closer_.Close(std::move(handle));
  absl::MutexLock lock(&mutex_);
  const auto taken = taken_.find(uid);
  if (--taken->second == 0) taken_.erase(taken);
}

}  // namespace remesh::worker
