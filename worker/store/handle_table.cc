// SPDX-License-Identifier: Apache-2.0
#include "worker/store/handle_table.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "base/random_bytes.h"

namespace remesh {

std::string HandleTable::Offer(std::shared_ptr<const Fd> handle) {
  constexpr size_t kTokenBytes = 16;
  std::string token = absl::BytesToHexString(RandomBytes(kTokenBytes));
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

}  // namespace remesh
