// SPDX-License-Identifier: Apache-2.0
#include "service/rpc/error_info.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/error.h"
#include "base/problems.h"
#include "base/text/utf8.h"
#include "base/text/visible.h"
#include "google/rpc/error_details.pb.h"

namespace remesh::service {
namespace {

// gRPC peers refuse 8 KiB of trailers by default.
constexpr size_t kMessageBytesMax = 1536;
constexpr size_t kReasonBytesMax = 128;
constexpr size_t kMetadataBytesMax = 3072;  // keys and values together
constexpr size_t kMetadataValueBytesMax = 512;
constexpr size_t kDetailsBytesMax = 4600;  // beyond which no further problem is added
constexpr size_t kViolationBytesMax = 400;
constexpr size_t kViolationOverhead = 16;  // tags and lengths
constexpr char kRetryAfter[] = "retry_after_seconds";

#define REMESH_SAME_CODE(ABSL, GRPC)                                                \
  static_assert(static_cast<int>(absl::StatusCode::ABSL) == grpc::StatusCode::GRPC, \
                "absl and gRPC number their codes alike")
REMESH_SAME_CODE(kOk, OK);
REMESH_SAME_CODE(kCancelled, CANCELLED);
REMESH_SAME_CODE(kUnknown, UNKNOWN);
REMESH_SAME_CODE(kInvalidArgument, INVALID_ARGUMENT);
REMESH_SAME_CODE(kDeadlineExceeded, DEADLINE_EXCEEDED);
REMESH_SAME_CODE(kNotFound, NOT_FOUND);
REMESH_SAME_CODE(kAlreadyExists, ALREADY_EXISTS);
REMESH_SAME_CODE(kPermissionDenied, PERMISSION_DENIED);
REMESH_SAME_CODE(kResourceExhausted, RESOURCE_EXHAUSTED);
REMESH_SAME_CODE(kFailedPrecondition, FAILED_PRECONDITION);
REMESH_SAME_CODE(kAborted, ABORTED);
REMESH_SAME_CODE(kOutOfRange, OUT_OF_RANGE);
REMESH_SAME_CODE(kUnimplemented, UNIMPLEMENTED);
REMESH_SAME_CODE(kInternal, INTERNAL);
REMESH_SAME_CODE(kUnavailable, UNAVAILABLE);
REMESH_SAME_CODE(kDataLoss, DATA_LOSS);
REMESH_SAME_CODE(kUnauthenticated, UNAUTHENTICATED);
#undef REMESH_SAME_CODE

// At most `size` bytes of `text`, cut between characters.
std::string Shortened(std::string_view text, size_t size) {
  if (text.size() <= size) return std::string(text);
  while (size > 0 && !BeginsCharacter(text, size)) --size;
  return std::string(text.substr(0, size)) + "...";
}

void FillErrorInfo(const absl::Status& status, google::rpc::ErrorInfo& message) {
  const ErrorInfo info = GetErrorInfo(status);
  message.set_reason(Shortened(info.reason, kReasonBytesMax));
  message.set_domain(kErrorDomain);
  size_t bytes = 0;
  for (const auto& [key, value] : info.metadata) {
    std::string shortened = Shortened(Visible(value), kMetadataValueBytesMax);
    bytes += key.size() + shortened.size();
    if (bytes > kMetadataBytesMax) break;
    (*message.mutable_metadata())[key] = std::move(shortened);
  }
}

// Adds a RetryInfo if the error says how long to wait.
void AddRetryInfo(const google::rpc::ErrorInfo& info, google::rpc::Status& message) {
  const auto wait = info.metadata().find(kRetryAfter);
  double seconds = 0;
  if (wait == info.metadata().end() || !absl::SimpleAtod(wait->second, &seconds)) return;
  google::rpc::RetryInfo retry;
  const auto nanos = static_cast<int64_t>(std::clamp(seconds, 0.0, 3600.0) * 1e9);
  *retry.mutable_retry_delay() = google::protobuf::util::TimeUtil::NanosecondsToDuration(nanos);
  message.add_details()->PackFrom(retry);
}

// Adds the further problems, as many as the details have room for.
void AddBadRequest(const absl::Status& status, google::rpc::Status& message) {
  google::rpc::BadRequest bad;
  size_t bytes = message.ByteSizeLong();
  for (const FurtherProblem& problem : FurtherProblems(status)) {
    const std::string field = Shortened(Visible(problem.field), kViolationBytesMax);
    const std::string description = Shortened(Visible(problem.description), kViolationBytesMax);
    bytes += field.size() + description.size() + kViolationOverhead;
    if (bytes > kDetailsBytesMax) break;
    google::rpc::BadRequest::FieldViolation& violation = *bad.add_field_violations();
    violation.set_field(field);
    violation.set_description(description);
  }
  if (bad.field_violations_size() > 0) message.add_details()->PackFrom(bad);
}

// The further problems that the peer sent. It may be forged.
std::vector<FurtherProblem> FurtherOf(const google::rpc::Status& message) {
  std::vector<FurtherProblem> further;
  for (const google::protobuf::Any& detail : message.details()) {
    google::rpc::BadRequest bad;
    if (!detail.UnpackTo(&bad)) continue;
    for (const auto& violation : bad.field_violations()) {
      if (further.size() == Problems::kFurtherMax) return further;
      further.push_back({Visible(violation.field()), Visible(violation.description())});
    }
  }
  return further;
}

}  // namespace

google::rpc::Status StatusToProto(const absl::Status& status) {
  google::rpc::Status message;
  message.set_code(static_cast<int>(status.code()));
  if (status.ok()) return message;
  message.set_message(
      Shortened(Visible({status.message().data(), status.message().size()}), kMessageBytesMax));
  google::rpc::ErrorInfo info;
  FillErrorInfo(status, info);
  message.add_details()->PackFrom(info);
  AddRetryInfo(info, message);
  AddBadRequest(status, message);
  return message;
}

absl::Status StatusFromProto(const google::rpc::Status& message) {
  // absl turns unknown codes into UNKNOWN.
  // The peer may be of a version that escapes nothing, or forged.
  const std::string text = Visible(message.message());
  const absl::Status status(static_cast<absl::StatusCode>(message.code()), text);
  if (status.ok()) return status;
  for (const google::protobuf::Any& detail : message.details()) {
    google::rpc::ErrorInfo info;
    if (!detail.UnpackTo(&info)) continue;
    const absl::Status error = MakeError(
        status.code(), text,
        {.reason = info.reason(), .metadata = {info.metadata().begin(), info.metadata().end()}});
    const std::vector<FurtherProblem> further = FurtherOf(message);
    return further.empty() ? error : WithFurther(error, further);
  }
  return status;
}

grpc::Status StatusToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status message = StatusToProto(status);
  return grpc::Status(static_cast<grpc::StatusCode>(message.code()), message.message(),
                      message.SerializeAsString());
}

absl::Status StatusFromGrpc(const grpc::Status& status) {
  google::rpc::Status message;
  if (status.error_details().empty() || !message.ParseFromString(status.error_details()))
    message.Clear();
  // The code and message of the call itself count, whatever the details say.
  message.set_code(status.error_code());
  message.set_message(status.error_message());
  return StatusFromProto(message);
}

}  // namespace remesh::service
