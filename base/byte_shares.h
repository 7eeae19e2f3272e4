// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace remesh {

// Bytes that callers hold, under a limit for all of them and one for each. Thread-safe.
class ByteShares {
 public:
  struct Limits {
    uint64_t all = 0;
    uint64_t of_caller = 0;
  };
  explicit ByteShares(Limits limits) : limits_(limits) {}

  // Counts so many more bytes of the caller, until Give(). False, and nothing is counted, if the
  // caller or all callers would have too many.
  bool Take(const std::string& caller, uint64_t bytes) {
    absl::MutexLock lock(&mutex_);
    const auto known = of_callers_.find(caller);
    const uint64_t held = known == of_callers_.end() ? 0 : known->second;
    if (bytes > limits_.of_caller - held || bytes > limits_.all - all_) return false;
    if (bytes == 0) return true;
    all_ += bytes;
    of_callers_[caller] = held + bytes;
    return true;
  }
  // REQUIRES: Take() counted them.
  void Give(const std::string& caller, uint64_t bytes) {
    if (bytes == 0) return;
    absl::MutexLock lock(&mutex_);
    all_ -= bytes;
    const auto known = of_callers_.find(caller);
    known->second -= bytes;
    if (known->second == 0) of_callers_.erase(known);
  }
  uint64_t bytes() const {
    absl::MutexLock lock(&mutex_);
    return all_;
  }
  const Limits& limits() const { return limits_; }

 private:
  const Limits limits_;
  mutable absl::Mutex mutex_;
  uint64_t all_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, uint64_t> of_callers_ ABSL_GUARDED_BY(mutex_);  // no number is 0
};

}  // namespace remesh
