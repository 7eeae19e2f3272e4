// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "absl/synchronization/mutex.h"
#include "remesh/v1/worker.pb.h"

namespace remesh::worker {

// How many slices the movers of a process have finished. Thread-safe.
class SliceCounters {
 public:
  // The most attempts in a heartbeat. A host has at most as many devices, and each serves one
  // attempt.
  static constexpr size_t kReportedMax = 4096;

  // Returns the counter of a new mover, valid until Drop(). REQUIRES: there is none for `attempt`.
  std::atomic<uint64_t>* Add(const std::string& attempt, const v1::AttemptId& id);
  // Nothing of the mover is left. REQUIRES: Add() for `attempt`.
  void Drop(const std::string& attempt);
  // Sets the slices of each mover, and of all together since the process began. Both are counted
  // from 1.
  void Report(v1::Heartbeat& beat) const;

 private:
  struct Counter {
    v1::AttemptId id;
    std::atomic<uint64_t> slices = 0;
  };

  mutable absl::Mutex mutex_;
  std::map<std::string, Counter> counters_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;  // slices of movers that have gone
};

}  // namespace remesh::worker
