// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace remesh {

// Time since an arbitrary start; never goes back.
using Timestamp = std::chrono::nanoseconds;

// The only source of time, so that tests and simulations can control it. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Timestamp Now() const = 0;
};

// The machine's steady clock; lives as long as the process.
const Clock& SteadyClock();

// A clock that moves only by Advance(). Not thread-safe: for single-threaded tests and simulations.
class ManualClock : public Clock {
 public:
  Timestamp Now() const override { return now_; }
  void Advance(Timestamp by) { now_ += by; }

 private:
  Timestamp now_{0};
};

}  // namespace remesh
