// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "base/clock.h"

namespace remesh::server {

// Tells by the time between ticks that the server itself stood still: then nobody was silent.
class OwnPause {
 public:
  // `interval` between ticks; 0: they come at any time.
  explicit OwnPause(Timestamp interval) : interval_(interval) {}

  void Start(Timestamp now) { last_ = now; }
  // How long it stood still before this tick; 0: not worth to be mentioned.
  Timestamp OnTick(Timestamp now) {
    const Timestamp pause = now - std::exchange(last_, now) - interval_;
    return interval_.count() == 0 || pause <= interval_ ? Timestamp(0) : pause;
  }

 private:
  const Timestamp interval_;
  Timestamp last_{0};
};

}  // namespace remesh::server
