// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"

namespace remesh::planner {

// Ends planning that takes too much or that nobody waits for any more. The planner knows neither
// time nor memory nor callers: whoever asks for a plan hands in what looks at them. Steps ask in
// their loops whether the budget is spent, return at once with whatever they have if so, and
// MakePlan() returns the reason instead of a plan. A budget changes no plan: planning comes to its
// end as if there were none, or not at all. For one thread.
class Budget {
 public:
  // OK to go on, else why not. Called every few milliseconds.
  using Look = std::function<absl::Status()>;

  // Of so many questions in loops, one looks.
  static constexpr uint32_t kAskedPerLook = 64;

  explicit Budget(Look look, uint32_t asked_per_look = kAskedPerLook)
      : look_(std::move(look)), asked_per_look_(asked_per_look), asks_left_(asked_per_look) {}
  static Budget& Unlimited() {
    static Budget* const budget = new Budget(nullptr);
    return *budget;
  }

  // Once true, true for ever. For loops of microseconds: does not look every time.
  bool Spent() {
    if (look_ == nullptr || --asks_left_ != 0) return spent_;
    asks_left_ = asked_per_look_;
    return SpentNow();
  }
  // For steps of milliseconds.
  bool SpentNow() {
    if (look_ == nullptr || spent_) return spent_;
    status_ = look_();
    spent_ = !status_.ok();
    return spent_;
  }
  // OK while it is not spent. Looks.
  const absl::Status& Check() {
    SpentNow();
    return status_;
  }

 private:
  Look look_;
  uint32_t asked_per_look_;
  uint32_t asks_left_;  // until it looks
  bool spent_ = false;
  absl::Status status_;
};

}  // namespace remesh::planner
