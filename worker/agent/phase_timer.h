// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "worker/execution/attempt.h"
#include "worker/metrics.h"

namespace remesh::worker {

// Tells the metrics how long an attempt was in each phase.
class PhaseTimer {
 public:
  // The attempt is in `phase` now.
  void Enter(Attempt::Phase phase, WorkerMetrics& metrics) {
    if (phase == phase_) return;
    const auto now = std::chrono::steady_clock::now();
    metrics.PhaseDone(phase_, std::chrono::duration<double>(now - since_).count());
    phase_ = phase;
    since_ = now;
  }

 private:
  Attempt::Phase phase_ = Attempt::Phase::kReserving;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace remesh::worker
