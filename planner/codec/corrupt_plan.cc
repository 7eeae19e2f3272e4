// SPDX-License-Identifier: Apache-2.0
#include "planner/codec/corrupt_plan.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::planner {
namespace {

absl::Status Corrupt(const std::string& what, ErrorInfo info) {
  info.reason = "PLAN_BYTES_CORRUPT";
  info.metadata["error"] = what;
  return MakeError(absl::StatusCode::kDataLoss, absl::StrCat("the bytes are not a plan: ", what),
                   info);
}

}  // namespace

absl::Status CorruptPlan(std::string_view what) { return Corrupt(std::string(what), {}); }

absl::Status CorruptPlan(const absl::Status& why) {
  return Corrupt(std::string(why.message()), GetErrorInfo(why));
}

absl::Status CorruptField(std::string_view field, std::string_view value,
                          std::string_view expectation) {
  return CorruptPlan(InvalidField(field, value, expectation));
}

}  // namespace remesh::planner
