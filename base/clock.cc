// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

namespace remesh {
namespace {

class MachineClock : public Clock {
 public:
  Timestamp Now() const override {
    return std::chrono::duration_cast<Timestamp>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

const Clock& SteadyClock() {
  static const MachineClock* clock = new MachineClock;  // never destroyed: threads may outlive main
  return *clock;
}

}  // namespace remesh
