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

// Tells whether a trainer that lends memory is still alive.
class Lease {
 public:
  explicit Lease(uid_t user) : user_(user) {}

  // The user of the connection that stands for the lease, who alone may lend by it (UserAt()).
  uid_t user() const { return user_; }
  // If true, the trainer's memory may be gone: bytes read from now on do not count.
  bool ended() const { return ended_; }

 private:
  friend class LeaseTable;
  const uid_t user_;
  std::atomic<bool> ended_ = false;
};

// The current leases, by token. Each user of memory lent by a lease holds that lease. Thread-safe.
class LeaseTable {
 public:
  static constexpr size_t kMax = 1024;
  static constexpr size_t kMaxOfUser = 256;

  // Starts a lease for `user` and returns its token, which cannot be guessed. nullopt if there are
  // too many leases, of this user or in all.
  std::optional<std::string> Begin(uid_t user);
  // Ends the lease because the trainer is gone. Held() answers for it until no process holds it any
  // more: its connection may have ended for another reason, and the trainer may ask by a new one.
  void End(std::string_view token);
  // Returns nullptr if no lease has that token, or the lease has ended.
  std::shared_ptr<const Lease> Find(std::string_view token) const;
  // Whether anybody still holds the lease that Find() returned. nullopt if no lease has that token,
  // or the lease has ended and no process held it.
  std::optional<bool> Held(std::string_view token) const;

 private:
  // Removes ended leases that no process holds.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<Lease>, std::less<>> leases_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::worker
