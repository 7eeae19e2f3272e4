// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/strand.h"

namespace remesh::worker {

// Shows another thread whether a strand still gets through its tasks: each Beat() posts a task that
// only counts, once the one before has run, so a strand that is stuck stops counting.
class StrandPulse {
 public:
  explicit StrandPulse(Strand* strand) : strand_(strand) {}

  // The number of tasks that have run by now, counted from 1. For one thread at a time.
  uint64_t Beat() {
    const uint64_t ran = *ran_;
    if (ran == asked_ && strand_->Post([counter = ran_] { ++*counter; })) ++asked_;
    return ran;
  }

 private:
  Strand* const strand_;
  const std::shared_ptr<std::atomic<uint64_t>> ran_ = std::make_shared<std::atomic<uint64_t>>(1);
  uint64_t asked_ = 1;
};

}  // namespace remesh::worker
