// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "planner/schedule/cost_model.h"

namespace remesh::planner {

// What a schedule may take in comparison to its bound, the seconds of the busiest link, which no
// schedule can be faster than.
class PriceLimits {
 public:
  // `hops`: of the moves in a single round.
  PriceLimits(double bound, int32_t hops)
      : bound_(bound),
        is_short_(bound < kShortHandOvers * hops * kHandOverSeconds),
        slowest_good_(SlowestGood(bound, hops)) {}

  double bound() const { return bound_; }
  // Hand-overs count in short plans beside the bytes, which they do not in long ones.
  bool is_short() const { return is_short_; }

  bool IsGood(const Prediction& one) const { return one.schedule_seconds <= slowest_good_; }
  // Messages make the plan so slow that more numbers of rounds are worth a try.
  bool IsDear(const Prediction& one) const { return one.seconds > bound_ * kDear; }
  // They make a long plan so slow that other moves may do better.
  bool IsDearest(const Prediction& one) const {
    return !is_short_ && one.seconds > bound_ * kDearest;
  }
  // The part of the time that a small fraction of the messages is worth.
  double fewer_messages_worth() const {
    return is_short_ ? kFewerMessagesWorthShort : kFewerMessagesWorth;
  }

 private:
  static constexpr double kFewerMessagesWorth = 0.1;
  static constexpr double kFewerMessagesWorthShort = 0.06;
  // A schedule is good when it takes at most this many times as long as the busiest link,
  // regardless of what messages cost beside their bytes.
  static constexpr double kPriceMax = 1.02;
  // Plans shorter than this many hand-overs a hop have a wider limit: see SlowestGood().
  static constexpr double kShortHandOvers = 100;
  static constexpr double kShortPriceMax = 1.05;
  static constexpr double kDear = 1.08;
  static constexpr double kDearest = 1.10;

  // The most seconds of a good schedule. In short plans hand-overs count beside the bytes: of K
  // parts of h hops, each of the K + h windows takes one, which is least for K = sqrt(h * bound /
  // hand-over).
  double SlowestGood(double bound, int32_t hops) const {
    if (!is_short_) return kPriceMax * bound;
    const double filling = 2 * std::sqrt(hops * bound * kHandOverSeconds) + 2 * kHandOverSeconds;
    return std::max(kShortPriceMax * bound, bound + filling);
  }

  const double bound_;
  const bool is_short_;
  const double slowest_good_;
};

}  // namespace remesh::planner
