// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/start_request.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

constexpr int64_t kDeadlineSecondsMax = 30 * 24 * 3600;

absl::Status DonationUnsupported() {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   "options.donate is not supported by executions yet",
                   {.reason = "DONATION_UNSUPPORTED", .metadata = {{"field", "options.donate"}}});
}

absl::Status CheckDeadline(const google::protobuf::Duration& deadline) {
  const bool in_range = deadline.seconds() >= 0 && deadline.seconds() <= kDeadlineSecondsMax &&
                        deadline.nanos() >= 0 && deadline.nanos() < 1'000'000'000;
  if (in_range) return absl::OkStatus();
  return InvalidField("deadline", absl::StrCat(deadline.seconds(), " s"), "must be 0 to 30 days");
}

}  // namespace

absl::Status CheckStartRequest(const v1::StartExecutionRequest& request) {
  RETURN_IF_ERROR(ParseStateName("state", request.state()).status());
  if (request.expected_generation() < 1) {
    return InvalidField("expected_generation", absl::StrCat(request.expected_generation()),
                        "must be >= 1");
  }
  if (request.how_case() == v1::StartExecutionRequest::HOW_NOT_SET) {
    return InvalidField("how", "", "must be targets or plan");
  }
  if (request.how_case() == v1::StartExecutionRequest::kPlan && request.has_options()) {
    return InvalidField("options", "set", "must be empty with a plan: the plan has its own");
  }
  if (request.how_case() == v1::StartExecutionRequest::kPlan && request.lose_absent_hosts()) {
    return InvalidField("lose_absent_hosts", "true",
                        "must be false with a plan: the plan has its own lost devices");
  }
  if (request.request_id().size() > 256) {
    return InvalidField("request_id", request.request_id(), "must have at most 256 bytes");
  }
  if (request.options().donate()) return DonationUnsupported();
  return CheckDeadline(request.deadline());
}

absl::Status RequestIdReused(const std::string& request_id) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      absl::StrCat("request_id: value \"", request_id, "\" was used for another request"),
      {.reason = "REQUEST_ID_REUSED",
       .metadata = {{"field", "request_id"}, {"value", request_id}}});
}

}  // namespace remesh::server
