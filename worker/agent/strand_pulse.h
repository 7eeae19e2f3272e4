// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/strand.h"

namespace remesh::worker {

// Shows from another thread whether a strand still gets through its tasks: each Beat() posts one
// that does nothing but count, so a strand that is stuck stops counting.
class StrandPulse {
 public:
  explicit StrandPulse(Strand* strand) : strand_(strand) {}

  // What has run by now, from 1. Of one thread at a time.
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
