// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/fd.h"

namespace remesh {

// Handles of device memory that trainers of this host may have, by tokens: who was told a token by
// LocalService may ask for its handle. A handle whose last owner is gone is not here any more.
// Thread-safe.
class HandleTable {
 public:
  // A token of 32 hexadecimal digits that nobody can guess.
  std::string Offer(std::shared_ptr<const Fd> handle);
  // Null when there is none of that token.
  std::shared_ptr<const Fd> Find(std::string_view token) const;

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, std::weak_ptr<const Fd>, std::less<>> handles_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh
