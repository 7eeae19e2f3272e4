// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace remesh {

// Something else that is wrong with the input that a status refuses: the path of a field, and the
// rest of the message that InvalidField() would make of it. AtField() puts its path in front of the
// fields of further problems too.
struct FurtherProblem {
  std::string field;
  std::string description;

  friend bool operator==(const FurtherProblem&, const FurtherProblem&) = default;
};

// `status` with these instead of the further problems that it has. REQUIRES: !status.ok().
absl::Status WithFurther(absl::Status status, const std::vector<FurtherProblem>& further);
std::vector<FurtherProblem> FurtherProblems(const absl::Status& status);

// Gathers what is wrong with independent parts of one input, in order, so that who wrote it can mend
// everything at once:
//
//   Problems problems;
//   for (...) RETURN_IF_ERROR(problems.Note(AtIndex("arrays", i, Check(arrays[i]))));
//   return problems.ToStatus();
class Problems {
 public:
  // Besides the first.
  static constexpr size_t kFurtherMax = 20;

  // Notes an INVALID_ARGUMENT, with its further problems, and returns OK while there is room for
  // more. Keeps the first problem of each field, because others may follow from it. Returns any other
  // status as it is: it is not about the input alone.
  absl::Status Note(const absl::Status& status);

  bool empty() const { return first_.ok(); }
  // OK, or the first problem with the others as its further ones.
  absl::Status ToStatus() const;

 private:
  void Add(FurtherProblem problem);

  absl::Status first_;
  std::string first_field_;
  std::vector<FurtherProblem> further_;
};

}  // namespace remesh
