// SPDX-License-Identifier: Apache-2.0
#include "base/problems.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"

namespace remesh {
namespace {

// The status without its own further problems.
FurtherProblem ToFurther(const absl::Status& status) {
  FurtherProblem problem{.field = GetErrorInfo(status).metadata["field"], .description = ""};
  absl::string_view message = status.message();
  if (!problem.field.empty()) absl::ConsumePrefix(&message, absl::StrCat(problem.field, ": "));
  problem.description = std::string(message);
  return problem;
}

}  // namespace

absl::Status Problems::Note(const absl::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (!absl::IsInvalidArgument(status)) return status;
  FurtherProblem problem = ToFurther(status);
  if (first_.ok()) {
    first_ = status;
    first_field_ = std::move(problem.field);
  } else {
    Add(std::move(problem));
  }
  for (FurtherProblem& further : FurtherProblems(status)) Add(std::move(further));
  if (further_.size() < kFurtherMax) return absl::OkStatus();
  further_.resize(kFurtherMax);
  return ToStatus();
}

void Problems::Add(FurtherProblem problem) {
  const auto same = [&](const FurtherProblem& other) { return other.field == problem.field; };
  const bool known =
      problem.field == first_field_ || std::any_of(further_.begin(), further_.end(), same);
  if (!known || problem.field.empty()) further_.push_back(std::move(problem));
}

absl::Status Problems::ToStatus() const {
  return first_.ok() || further_.empty() ? first_ : WithFurther(first_, further_);
}

}  // namespace remesh
