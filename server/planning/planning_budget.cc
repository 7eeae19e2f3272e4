// SPDX-License-Identifier: Apache-2.0
#include "server/planning/planning_budget.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {
namespace {

constexpr Timestamp kBetweenQuestions = std::chrono::milliseconds(10);  // between calls of `wanted`

absl::Status TooLong(absl::Duration timeout) {
  const std::string most = absl::FormatDuration(timeout);
  return MakeError(
      absl::StatusCode::kDeadlineExceeded,
      absl::StrCat("planning takes longer than ", most,
                   ", the server's planning_timeout: ask for fewer different arrays and shardings "
                   "at once, or raise it"),
      {.reason = "PLANNING_TIMEOUT", .metadata = {{"planning_timeout", most}}});
}

absl::Status TooMuch(int64_t limit) {
  const std::string most = absl::StrCat(limit);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("planning takes more memory than ", most,
                   " bytes, the server's planning_memory_limit: ask for fewer different arrays and "
                   "shardings at once, or raise it"),
      {.reason = "PLANNING_MEMORY", .metadata = {{"planning_memory_limit", most}}});
}

}  // namespace

// No other error of planning has this code.
bool IsOverstayed(const absl::Status& status) { return absl::IsAborted(status); }

planner::Budget BudgetOf(const PlanningLimits& limits, std::function<absl::Status()> wanted,
                         absl::Duration quantum) {
  const Timestamp start = limits.now();
  return planner::Budget([limits, wanted = std::move(wanted), quantum, start,
                          held = limits.held_bytes(), asked = start]() mutable -> absl::Status {
    if (limits.held_bytes() - held > limits.memory_bytes) return TooMuch(limits.memory_bytes);
    const Timestamp now = limits.now();
    const absl::Duration taken = absl::FromChrono(now - start);
    if (taken > limits.timeout) return TooLong(limits.timeout);
    if (taken > quantum) return absl::AbortedError("the quantum has passed");
    if (wanted == nullptr || now - asked < kBetweenQuestions) return absl::OkStatus();
    asked = now;
    return wanted();
  });
}

}  // namespace remesh::server
