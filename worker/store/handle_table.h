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

namespace remesh::worker {

// Handles of memory between this process and trainers of this host, by tokens: who was told a token
// by LocalService may ask for its handle; who brought one tells LocalService its token. Thread-safe;
// no call waits until what trainers brought is closed, which takes as long as there is memory to
// free.
class HandleTable {
 public:
  // Of those that trainers brought. When there are more, the oldest goes of the user who has most,
  // so that one who floods the table loses his own.
  static constexpr size_t kBroughtMax = 1024;
  static constexpr absl::Duration kBroughtAge = absl::Minutes(1);

  // A token of 32 hexadecimal digits that nobody can guess.
  std::string Offer(std::shared_ptr<const Fd> handle);
  // Null when there is none of that token, or its last owner is gone.
  std::shared_ptr<const Fd> Find(std::string_view token) const;

  // Keeps what a trainer brought until it is taken, once, or too old. Returns its token.
  std::string Bring(Fd handle, uid_t uid, absl::Time now);
  // -1 in it when there is none of that token.
  Fd Take(std::string_view token, absl::Time now);
  // Closes what Take() gave.
  void Close(Fd handle) { closer_.Close(std::move(handle)); }
  // Closes what nobody took in time. How long until the next is too old; infinite: there is none.
  absl::Duration CloseOld(absl::Time now);

 private:
  struct Brought {
    std::string token;
    Fd handle;
    uid_t uid;
    absl::Time since;
  };

  mutable absl::Mutex mutex_;
  std::map<std::string, std::weak_ptr<const Fd>, std::less<>> handles_ ABSL_GUARDED_BY(mutex_);
  Closer closer_;
  std::deque<Brought> brought_ ABSL_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace remesh::worker
