// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace remesh::worker {

// The life of a trainer as far as what it lends depends on it.
class Lease {
 public:
  // Its memory may be gone: nothing that is read of it from now on counts.
  bool ended() const { return ended_; }

 private:
  friend class LeaseTable;
  std::atomic<bool> ended_ = false;
};

// The leases that stand, by tokens. Whoever has memory open that was lent by one holds it. Thread-safe.
class LeaseTable {
 public:
  static constexpr size_t kMax = 1024;
  static constexpr size_t kMaxOfUser = 256;

  // A token that nobody can guess; nullopt: there are too many, of this user or of all.
  std::optional<std::string> Begin(uid_t user);
  // The trainer is gone.
  void End(std::string_view token);
  // Null when there is none of that token, or it has ended.
  std::shared_ptr<const Lease> Find(std::string_view token) const;
  // Whether anybody holds what Find() gave; nullopt: there is none of that token.
  std::optional<bool> Held(std::string_view token) const;

 private:
  struct Entry {
    std::shared_ptr<Lease> lease;
    uid_t user;
  };

  mutable absl::Mutex mutex_;
  std::map<std::string, Entry, std::less<>> leases_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::worker
