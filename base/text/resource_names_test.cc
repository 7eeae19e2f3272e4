// SPDX-License-Identifier: Apache-2.0
#include "base/text/resource_names.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace remesh {
namespace {

TEST(ResourceNamesTest, StatesHaveAJobAndAName) {
  EXPECT_EQ(*ParseStateName("f", "jobs/j/states/s"), "j");
  EXPECT_EQ(*ParseStateName("f", "jobs/a.b-c_9/states/" + std::string(63, 's')), "a.b-c_9");
  for (const std::string name :
       {"", "jobs", "jobs/j", "jobs/j/states", "jobs/j/states/", "jobs//states/s",
        "jobs/j/states/s/", "jobs/j/states/s/t", "jobs/j/executions/s", "job/j/states/s",
        "/jobs/j/states/s", "jobs/-/states/s", "jobs/j/states/a b"}) {
    const absl::Status status = ParseStateName("state", name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(GetErrorInfo(status).metadata["field"], "state");
    EXPECT_EQ(GetErrorInfo(status).metadata["value"], name);
  }
  EXPECT_FALSE(ParseStateName("f", "jobs/j/states/" + std::string(64, 's')).ok());
  EXPECT_FALSE(ParseStateName("f", "jobs/j/states/\xc3\xa4").ok());
}

TEST(ResourceNamesTest, HostsMayBeLongerThanSegments) {
  EXPECT_TRUE(IsSegment(std::string(kSegmentMax, 'a')));
  EXPECT_FALSE(IsSegment(std::string(kSegmentMax + 1, 'a')));
  EXPECT_TRUE(IsHostName(std::string(kHostNameMax, 'a')));
  EXPECT_FALSE(IsHostName(std::string(kHostNameMax + 1, 'a')));
  for (const char* host : {"", "-a", ".a", "a/b", "a b"}) EXPECT_FALSE(IsHostName(host)) << host;
}

TEST(ResourceNamesTest, SegmentsAreTakenWithTheirSlashes) {
  std::string_view rest = "a//b/";
  EXPECT_EQ(TakeSegment(rest), "a");
  EXPECT_EQ(TakeSegment(rest), "");
  EXPECT_EQ(TakeSegment(rest), "b");
  EXPECT_EQ(TakeSegment(rest), "");
  EXPECT_EQ(rest, "");
}

}  // namespace
}  // namespace remesh
