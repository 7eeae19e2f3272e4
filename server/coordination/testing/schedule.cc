// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/testing/schedule.h"

#include <algorithm>
#include <utility>

namespace remesh::server::coordination {

void Schedule::At(absl::Time time, std::function<void()> run) {
  events_.push({std::max(time, now_), order_++, std::move(run)});
}

absl::Time Schedule::NextTime() const {
  return events_.empty() ? absl::InfiniteFuture() : events_.top().time;
}

void Schedule::RunNext() {
  now_ = events_.top().time;
  const std::function<void()> run = events_.top().run;
  events_.pop();
  run();
}

absl::Duration Schedule::Between(absl::Duration least, absl::Duration most) {
  return least + absl::Microseconds(Below(absl::ToInt64Microseconds(most - least) + 1));
}

}  // namespace remesh::server::coordination
