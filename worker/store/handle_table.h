// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/fd.h"
#include "worker/keeper/closer.h"
#include "worker/store/lease_table.h"

namespace remesh::worker {

// Passes handles of memory between this process and trainers of this host, by tokens. A trainer
// that has got a token from LocalService may ask for its handle; a trainer that has brought a
// handle tells LocalService its token. Thread-safe. No call waits until handles that trainers
// brought are closed, which takes as long as there is memory to free.
class HandleTable {
 public:
  // Limit on the handles that trainers brought and no worker took. Beyond it, the oldest handle of
  // the user with the most handles goes, so that a user who floods the table loses their own. One
  // user has at most as many handles, those included that were taken and are still held: a loan
  // that waits keeps its descriptors open.
  static constexpr size_t kBroughtMax = 1024;
  static constexpr absl::Duration kBroughtAge = absl::Minutes(1);

  // Returns a token of 32 hexadecimal digits that cannot be guessed.
  std::string Offer(std::shared_ptr<const Fd> handle);
  // Null if no handle has that token, or the handle's last owner is gone.
  std::shared_ptr<const Fd> Find(std::string_view token) const;

  // Keeps a handle that a trainer brought until it is taken, once, or too old. Returns its token.
  std::string Bring(Fd handle, uid_t uid, absl::Time now);
  // Null if no handle has that token. Whoever lets go of the handle last does not wait until it is
  // closed. It must not outlive this table.
  std::shared_ptr<const Fd> Take(std::string_view token, absl::Time now);
  // Closes handles that were not taken in time. Returns how long until the next is too old;
  // infinite if there is none.
  absl::Duration CloseOld(absl::Time now);

  // Of those who lend memory that ends with them.
  LeaseTable& leases() { return leases_; }

 private:
  struct Brought {
    std::string token;
    Fd handle;
    uid_t uid;
    absl::Time since;
  };

  // The handle that must go because `newcomer` brought the last one; the end if none must.
  std::deque<Brought>::iterator TooMany(uid_t newcomer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Closes a handle that Take() returned.
  void GiveBack(Fd handle, uid_t uid);

  LeaseTable leases_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::weak_ptr<const Fd>, std::less<>> handles_ ABSL_GUARDED_BY(mutex_);
  Closer closer_;
  std::deque<Brought> brought_ ABSL_GUARDED_BY(mutex_);    // the oldest first
  std::map<uid_t, size_t> taken_ ABSL_GUARDED_BY(mutex_);  // and still held
};

}  // namespace remesh::worker
