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

// Whether a call of the method costs the server planning or room, so that CallLimits counts it.
bool IsLimited(std::string_view method);

// How often one caller may ask for what costs much: a token bucket each. Of callers the least
// recently heard are forgotten, which gives them a full bucket. Thread-safe.
class CallLimits {
 public:
  struct Options {
    double per_second = 0;        // 0: no limit
    double burst = 1;             // calls at once, after a rest; >= 1
    size_t callers_max = 10'000;  // that are remembered
  };
  CallLimits(Options options, const Clock& clock) : clock_(clock), options_(options) {}

  // RESOURCE_EXHAUSTED (RATE_LIMITED) with the time to wait as `retry_after_seconds`, which
  // StatusToProto() makes a RetryInfo of.
  absl::Status Take(const std::string& caller);

  // From now on, for callers who are known already, too.
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
  std::list<std::string> order_ ABSL_GUARDED_BY(mutex_);  // callers, the last one heard first
};

}  // namespace remesh::server
