// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace remesh {

// Calls a function from time to time, on a thread of its own. Thread-compatible.
class Ticker {
 public:
  Ticker() = default;
  ~Ticker() { Stop(); }

  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  // Waits `interval` before each call. REQUIRES: called at most once.
  void Start(absl::Duration interval, absl::AnyInvocable<void()> tick);
  // Waits for a call that is under way; none follows. Idempotent. Must not be called from a tick.
  void Stop();

 private:
  bool StopsWithin(absl::Duration time);

  absl::Mutex mutex_;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace remesh
