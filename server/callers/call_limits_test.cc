// SPDX-License-Identifier: Apache-2.0
#include "server/callers/call_limits.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "google/rpc/error_details.pb.h"
#include "service/rpc/error_info.h"

namespace remesh::server {
namespace {

class CallLimitsTest : public testing::Test {
 protected:
  // Calls that get through before one is refused; at most 1000.
  static int Passing(CallLimits& limits, const std::string& caller) {
    int calls = 0;
    while (calls < 1000 && limits.Take(caller).ok()) ++calls;
    return calls;
  }
  ManualClock clock_;
};

TEST_F(CallLimitsTest, ABurstThenARateForEachCaller) {
  CallLimits limits({.per_second = 10, .burst = 5}, clock_);
  EXPECT_EQ(Passing(limits, "a"), 5);
  EXPECT_EQ(Passing(limits, "b"), 5);  // what a did is nothing to b
  clock_.Advance(std::chrono::milliseconds(200));
  EXPECT_EQ(Passing(limits, "a"), 2);
  clock_.Advance(std::chrono::hours(1));
  EXPECT_EQ(Passing(limits, "a"), 5);
}

TEST_F(CallLimitsTest, AnotherRateHoldsForThoseWhoAreKnown) {
  CallLimits limits({.per_second = 10, .burst = 50}, clock_);
  ASSERT_TRUE(limits.Take("a").ok());
  limits.SetRate(1, 3);
  EXPECT_EQ(Passing(limits, "a"), 3);  // what it had saved up counts no more
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_EQ(Passing(limits, "a"), 2);
  limits.SetRate(0, 1);
  EXPECT_EQ(Passing(limits, "a"), 1000);
}

TEST_F(CallLimitsTest, WithoutARateThereIsNoLimit) {
  CallLimits limits({.per_second = 0, .burst = 1}, clock_);
  EXPECT_EQ(Passing(limits, "a"), 1000);
}

TEST_F(CallLimitsTest, TheRefusalSaysWhoAndForHowLong) {
  CallLimits limits({.per_second = 4, .burst = 1}, clock_);
  ASSERT_EQ(Passing(limits, "peer 10.0.0.1"), 1);
  const absl::Status refused = limits.Take("peer 10.0.0.1");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(refused).reason, "RATE_LIMITED");
  EXPECT_EQ(GetErrorInfo(refused).metadata["caller"], "peer 10.0.0.1");
  const google::rpc::Status wire = service::StatusToProto(refused);
  ASSERT_EQ(wire.details_size(), 2);
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(wire.details(1).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 0);
  EXPECT_EQ(retry.retry_delay().nanos(), 250'000'000);
}

TEST_F(CallLimitsTest, OfManyCallersOnlyTheLastOnesAreRemembered) {
  CallLimits limits({.per_second = 1, .burst = 1, .callers_max = 3}, clock_);
  EXPECT_EQ(Passing(limits, "a"), 1);
  for (const char* caller : {"b", "c"}) Passing(limits, caller);
  EXPECT_EQ(Passing(limits, "a"), 0);  // called again: b is the oldest now
  Passing(limits, "d");
  EXPECT_EQ(Passing(limits, "a"), 0);
  EXPECT_EQ(Passing(limits, "b"), 1);
}

}  // namespace
}  // namespace remesh::server
