// SPDX-License-Identifier: Apache-2.0
#include "base/ticker.h"

#include <utility>

namespace remesh {

void Ticker::Start(absl::Duration interval, absl::AnyInvocable<void()> tick) {
  thread_ = std::thread([this, interval, tick = std::move(tick)]() mutable {
    while (!StopsWithin(interval)) tick();
  });
}

bool Ticker::StopsWithin(absl::Duration time) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&stops_), time);
}

void Ticker::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stops_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace remesh
