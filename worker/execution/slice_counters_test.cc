// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/slice_counters.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace remesh::worker {
namespace {

v1::AttemptId Id(const std::string& execution) {
  v1::AttemptId id;
  id.set_execution(execution);
  id.set_attempt(1);
  return id;
}

v1::Heartbeat Reported(const SliceCounters& counters) {
  v1::Heartbeat beat;
  counters.Report(beat);
  return beat;
}

TEST(SliceCountersTest, EachAttemptHasItsOwnCountAndTheSumNeverFalls) {
  SliceCounters counters;
  EXPECT_EQ(Reported(counters).slices(), 1u);
  *counters.Add("a", Id("a")) += 5;
  *counters.Add("b", Id("b")) += 2;
  const v1::Heartbeat both = Reported(counters);
  ASSERT_EQ(both.attempts_size(), 2);
  EXPECT_EQ(both.attempts(0).attempt().execution(), "a");
  EXPECT_EQ(both.attempts(0).slices(), 6u);
  EXPECT_EQ(both.attempts(1).slices(), 3u);
  EXPECT_EQ(both.slices(), 8u);
  counters.Drop("a");
  EXPECT_EQ(Reported(counters).attempts_size(), 1);
  EXPECT_EQ(Reported(counters).slices(), 8u);
  counters.Add("a", Id("a"));
  EXPECT_EQ(Reported(counters).attempts(0).slices(), 1u);
}

TEST(SliceCountersTest, AHeartbeatIsBounded) {
  SliceCounters counters;
  const int most = static_cast<int>(SliceCounters::kReportedMax);
  for (int i = 0; i < most + 7; ++i) *counters.Add(absl::StrCat(i), Id(absl::StrCat(i))) += 1;
  EXPECT_EQ(Reported(counters).attempts_size(), most);
  EXPECT_EQ(Reported(counters).slices(), static_cast<uint64_t>(most + 8));
}

}  // namespace
}  // namespace remesh::worker
