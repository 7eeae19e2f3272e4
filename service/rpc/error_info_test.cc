// SPDX-License-Identifier: Apache-2.0
#include "service/rpc/error_info.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/problems.h"
#include "google/rpc/error_details.pb.h"

namespace remesh::service {
namespace {

const absl::Status kMoving =
    MakeError(absl::StatusCode::kAborted, "state a is moving",
              {.reason = "STATE_MOVING", .metadata = {{"state", "a"}, {"n", "1"}}});

TEST(ErrorInfoTest, RoundTrips) {
  EXPECT_EQ(StatusFromGrpc(StatusToGrpc(kMoving)), kMoving);
  EXPECT_EQ(StatusFromProto(StatusToProto(kMoving)), kMoving);
  EXPECT_TRUE(StatusFromGrpc(StatusToGrpc(absl::OkStatus())).ok());
  EXPECT_TRUE(StatusFromProto(StatusToProto(absl::OkStatus())).ok());
}

// Both ways: the peer may be of a version that escapes nothing.
TEST(ErrorInfoTest, MessagesShowWhatATerminalWouldObey) {
  const absl::Status evil = MakeError(absl::StatusCode::kNotFound, "no state a\u202eb\x1b\x7f",
                                      {.reason = "X", .metadata = {{"state", "a\u202eb"}}});
  const google::rpc::Status sent = StatusToProto(evil);
  EXPECT_EQ(sent.message(), "no state a\\u202eb\\x1b\\x7f");
  EXPECT_EQ(GetErrorInfo(StatusFromProto(sent)).metadata.at("state"), "a\\u202eb");
  google::rpc::Status raw = sent;
  raw.set_message("no \u202ex");
  EXPECT_EQ(StatusFromProto(raw).message(), "no \\u202ex");
  EXPECT_EQ(StatusFromGrpc({grpc::StatusCode::NOT_FOUND, "no \x9b"}).message(), "no \\x9b");
}

TEST(ErrorInfoTest, EveryErrorCarriesReasonAndDomain) {
  google::rpc::Status message;
  ASSERT_TRUE(message.ParseFromString(StatusToGrpc(absl::InternalError("bug")).error_details()));
  google::rpc::ErrorInfo info;
  ASSERT_EQ(message.details_size(), 1);
  ASSERT_TRUE(message.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "INTERNAL");
  EXPECT_EQ(info.domain(), "remesh");
}

TEST(ErrorInfoTest, StatusesOfOthersStayWhatTheyAre) {
  const absl::Status status =
      StatusFromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "no route"));
  EXPECT_EQ(status, absl::UnavailableError("no route"));
  EXPECT_EQ(
      StatusFromGrpc(grpc::Status(grpc::StatusCode::ABORTED, "x", "\xff not a message")).code(),
      absl::StatusCode::kAborted);
}

TEST(ErrorInfoTest, FurtherProblemsAreFieldViolations) {
  const absl::Status status = WithFurther(InvalidField("a", "-1", "must be >= 0"),
                                          {{"b[2]", "is missing"}, {"c", "must be unique"}});
  EXPECT_EQ(FurtherProblems(StatusFromGrpc(StatusToGrpc(status))), FurtherProblems(status));
  const google::rpc::Status message = StatusToProto(status);
  google::rpc::BadRequest bad;
  ASSERT_EQ(message.details_size(), 2);
  ASSERT_TRUE(message.details(1).UnpackTo(&bad));
  EXPECT_EQ(bad.field_violations(0).field(), "b[2]");
}

TEST(ErrorInfoTest, FurtherProblemsFitTrailers) {
  const std::vector<FurtherProblem> further(20, {std::string(500, 'f'), std::string(5000, 'd')});
  const std::string long_text(10'000, 'x');
  const grpc::Status status =
      StatusToGrpc(WithFurther(InvalidField("a", long_text, long_text), further));
  EXPECT_LT(status.error_message().size() + status.error_details().size(), size_t{7} << 10);
  const grpc::Status short_status = StatusToGrpc(WithFurther(InvalidField("a", "", "x"), further));
  EXPECT_LT(short_status.error_details().size(), size_t{5} << 10);
  EXPECT_GE(FurtherProblems(StatusFromGrpc(short_status)).size(), 4u);
}

TEST(ErrorInfoTest, FitsTrailers) {
  std::string long_text;
  for (int i = 0; i < 10'000; ++i) long_text += "\u00e9";
  ErrorInfo info{.reason = "LONG"};
  for (char c = 'a'; c < 'z'; ++c) info.metadata[std::string(1, c)] = long_text;
  const grpc::Status status =
      StatusToGrpc(MakeError(absl::StatusCode::kInvalidArgument, long_text, info));
  EXPECT_LT(status.error_message().size() + status.error_details().size(), size_t{7} << 10);
  const absl::Status back = StatusFromGrpc(status);
  EXPECT_EQ(GetErrorInfo(back).reason, "LONG");
  EXPECT_EQ(GetErrorInfo(back).metadata["a"].substr(0, 4), "\u00e9\u00e9");
}

}  // namespace
}  // namespace remesh::service
