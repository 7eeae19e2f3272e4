// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace remesh::server {

// Detects from the time between ticks that the server itself stood still, in which case no worker
// was silent.
class OwnPause {
 public:
  // `interval`: time between ticks; 0: ticks come at any time.
  explicit OwnPause(Timestamp interval) : interval_(interval) {}

  void Start(Timestamp now) { last_ = now; }
  // The time for an event between ticks. Time in which the server may have stood still does not
  // count until a tick tells how long that was: no deadline passes in that time.
  Timestamp Between(Timestamp now) const {
    return interval_.count() == 0 ? now : std::min(now, last_ + 2 * interval_);
  }
  // How long the server stood still before this tick; 0: not long enough to matter.
  Timestamp OnTick(Timestamp now) {
    const Timestamp pause = now - std::exchange(last_, now) - interval_;
    return interval_.count() == 0 || pause <= interval_ ? Timestamp(0) : pause;
  }

 private:
  const Timestamp interval_;
  Timestamp last_{0};
};

}  // namespace remesh::server
