// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace remesh::server::coordination {

// FAILED_PRECONDITION (STALE_EPOCH) with `present`, 0 if the scope has none, in metadata "epoch".
absl::Status StaleEpoch(std::string_view scope, int64_t epoch, int64_t present);

// The present epoch of each scope, for calls that carry a fence. An epoch is present from before its
// members learn of it until that of the scope's next world is. Thread-safe, and quick.
class Fences {
 public:
  void Set(std::string_view scope, int64_t epoch);
  void Forget(std::string_view scope);

  // StaleEpoch() unless `epoch` is the present one of the scope, which is then one that has formed.
  //
  // A call that changes something must be checked on the controller's strand, where it takes effect:
  // a world's epoch is on its way through that strand before any member learns of it, so a call that
  // waited for the strand cannot take effect after the next world's first call.
  absl::Status CheckFence(std::string_view scope, int64_t epoch) const;

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, int64_t, std::less<>> present_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::server::coordination
