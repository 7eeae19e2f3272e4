// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <tuple>
#include <vector>

#include "absl/time/time.h"

namespace remesh::server::coordination {

// Time and chance of a simulation: all that happens, by one seed. Not thread-safe.
class Schedule {
 public:
  explicit Schedule(uint64_t seed) : random_(seed), now_(absl::UnixEpoch() + absl::Hours(1)) {}

  absl::Time now() const { return now_; }

  // Runs it then, or now if that is past. What is due at one time runs in the order in which it came.
  void At(absl::Time time, std::function<void()> run);
  void After(absl::Duration delay, std::function<void()> run) { At(now_ + delay, std::move(run)); }
  // When the next is due; InfiniteFuture if none is.
  absl::Time NextTime() const;
  // Goes to that time and runs it. REQUIRES: there is one.
  void RunNext();
  // REQUIRES: nothing is due before.
  void GoTo(absl::Time time) { now_ = std::max(now_, time); }

  uint64_t Below(uint64_t end) { return random_() % end; }
  bool Chance(double probability) { return Below(1'000'000) < probability * 1e6; }
  absl::Duration Between(absl::Duration least, absl::Duration most);

 private:
  struct Event {
    absl::Time time;
    uint64_t order = 0;
    std::function<void()> run;
    bool operator<(const Event& other) const {  // for a queue of the earliest first
      return std::tie(time, order) > std::tie(other.time, other.order);
    }
  };

  std::mt19937_64 random_;
  absl::Time now_;
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
};

}  // namespace remesh::server::coordination
