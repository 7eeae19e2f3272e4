// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"

namespace remesh::server {

// Whether a call of the method costs the server planning time or memory, so that CallLimits counts
// it.
bool IsLimited(std::string_view method);

// Limits how often each caller may make expensive calls, with one token bucket a caller. Forgets
// the callers whose last call is the oldest, beyond `callers_max`; a forgotten caller starts again
// with a full bucket. Thread-safe.
class CallLimits {
 public:
  struct Options {
    double per_second = 0;        // 0: no limit
    double burst = 1;             // calls that a rested caller may make at once; >= 1
    size_t callers_max = 10'000;  // callers to remember
  };
  CallLimits(Options options, const Clock& clock) : clock_(clock), options_(options) {}

  // Takes one token of the caller's bucket. RESOURCE_EXHAUSTED (RATE_LIMITED) when it is empty,
  // with the time to wait in metadata `retry_after_seconds`, from which StatusToProto() makes a
  // RetryInfo.
  absl::Status Take(const std::string& caller);

  // Applies from now on, also to callers that are already known.
  void SetRate(double per_second, double burst);

 private:
  struct Bucket {
    double tokens = 0;
    Timestamp filled{0};
    std::list<std::string>::iterator order;
  };
  Bucket& Find(const std::string& caller, Timestamp now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  absl::Mutex mutex_;
  Options options_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Bucket> buckets_ ABSL_GUARDED_BY(mutex_);
  std::list<std::string> order_ ABSL_GUARDED_BY(mutex_);  // callers, the last to call first
};

}  // namespace remesh::server
