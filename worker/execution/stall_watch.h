// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace remesh::worker {

// Tells when transfers with other hosts have made no progress for too long. Time between two looks
// counts for at most kStepMax, so that a process that stood still blames nobody. A value.
class StallWatch {
 public:
  static constexpr Timestamp kStepMax = std::chrono::seconds(1);

  // limit: 0: never.
  explicit StallWatch(Timestamp limit) : limit_(limit) {}

  // A transfer began or ended.
  void Progressed() { waited_ = Timestamp(0); }
  // To be called at least once a second. `waits`: whether any transfer is under way. Returns
  // whether all that are have been under way for as long as the limit, and none ended.
  bool Look(Timestamp now, bool waits) {
    const Timestamp since = std::min(now - looked_at_, kStepMax);
    looked_at_ = now;
    waited_ = waits ? waited_ + since : Timestamp(0);
    return limit_ > Timestamp(0) && waited_ >= limit_;
  }
  Timestamp limit() const { return limit_; }

 private:
  Timestamp limit_;
  Timestamp looked_at_{0};
  Timestamp waited_{0};
};

}  // namespace remesh::worker
