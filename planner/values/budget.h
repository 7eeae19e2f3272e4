// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"

namespace remesh::planner {

// Ends planning that takes too much time or memory, or that no caller waits for any more. The
// planner itself knows neither time, memory nor callers: the caller passes a Look that checks them.
// Steps ask in their loops whether the budget is spent; if so they return at once with incomplete
// results, and MakePlan() returns the reason instead of a plan. A budget never changes a plan:
// planning ends with the same plan as without a budget, or with none. For one thread.
class Budget {
 public:
  // OK while planning may go on, else the reason to stop. Called every few milliseconds.
  using Look = std::function<absl::Status()>;

  // Spent() calls Look once in this many calls.
  static constexpr uint32_t kAskedPerLook = 64;

  explicit Budget(Look look, uint32_t asked_per_look = kAskedPerLook)
      : look_(std::move(look)), asked_per_look_(asked_per_look), asks_left_(asked_per_look) {}
  static Budget& Unlimited() {
    static Budget* const budget = new Budget(nullptr);
    return *budget;
  }

  // Whether the budget is spent; stays true once true. For loops of microseconds: rarely calls
  // Look.
  bool Spent() {
    if (look_ == nullptr || --asks_left_ != 0) return spent_;
    asks_left_ = asked_per_look_;
    return SpentNow();
  }
  // The same, but always calls Look. For steps of milliseconds.
  bool SpentNow() {
    if (look_ == nullptr || spent_) return spent_;
    status_ = look_();
    spent_ = !status_.ok();
    return spent_;
  }
  // OK while the budget is not spent, else the reason. Calls Look.
  const absl::Status& Check() {
    SpentNow();
    return status_;
  }

 private:
  Look look_;
  uint32_t asked_per_look_;
  uint32_t asks_left_;  // calls of Spent() until the next Look
  bool spent_ = false;
  absl::Status status_;
};

}  // namespace remesh::planner
