// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <gtest/gtest.h>

#include "base/missing_field.h"

namespace remesh {
namespace {

TEST(ErrorTest, InvalidFieldNamesFieldAndValue) {
  const absl::Status status = InvalidField("shape[1]", "-3", "must be >= 0");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "shape[1]: value \"-3\" must be >= 0");
  const ErrorInfo info = GetErrorInfo(status);
  EXPECT_EQ(info.reason, "INVALID_FIELD");
  EXPECT_EQ(info.metadata.at("field"), "shape[1]");
  EXPECT_EQ(info.metadata.at("value"), "-3");
}

TEST(ErrorTest, MissingFieldShowsNoValue) {
  const absl::Status status =
      AtField("hosts[1]", MissingField("nic_bytes_per_second", "must be > 0"));
  EXPECT_EQ(std::string(status.message()),
            "hosts[1].nic_bytes_per_second: is missing; must be > 0");
  EXPECT_EQ(GetErrorInfo(status).reason, "INVALID_FIELD");
}

TEST(ErrorTest, AtFieldJoinsPaths) {
  absl::Status status = AtField("source", InvalidField("hlo_text", "{", "ends too early"));
  EXPECT_EQ(AtIndex("arrays", 3, status), AtField("arrays", AtField("[3]", status)));
  status = AtIndex("arrays", 3, status);
  EXPECT_EQ(GetErrorInfo(status).metadata.at("field"), "arrays[3].source.hlo_text");
  EXPECT_EQ(std::string(status.message()), "arrays[3].source.hlo_text: value \"{\" ends too early");
}

TEST(ErrorTest, AtFieldKeepsInfoOfOtherErrors) {
  const ErrorInfo info{.reason = "STATE_MOVING", .metadata = {{"state", "jobs/a/states/b"}}};
  const absl::Status status = AtField("x", MakeError(absl::StatusCode::kAborted, "moves", info));
  EXPECT_EQ(std::string(status.message()), "x: moves");
  EXPECT_EQ(GetErrorInfo(status), info);
  EXPECT_TRUE(AtField("x", absl::OkStatus()).ok());
}

TEST(ErrorTest, ValuesAreShortenedAndEscaped) {
  const ErrorInfo info = GetErrorInfo(InvalidField("f", std::string(1000, '\n'), "is odd"));
  EXPECT_LT(info.metadata.at("value").size(), 500u);
  EXPECT_EQ(info.metadata.at("value").find('\n'), std::string::npos);
}

TEST(ErrorTest, PlainStatusesHaveTheirCodeAsReason) {
  EXPECT_EQ(GetErrorInfo(absl::NotFoundError("x")).reason, "NOT_FOUND");
}

}  // namespace
}  // namespace remesh
