// SPDX-License-Identifier: Apache-2.0
#include "server/callers/open_calls.h"

#include <gtest/gtest.h>

namespace remesh::server {
namespace {

TEST(OpenCallsTest, AnAskerCanBeAskedAfterTheCallHasItsReply) {
  OpenCalls calls;
  int replies = 0, asked = 0;
  calls.Add(
      7, [&](const absl::StatusOr<Reply>&) { ++replies; }, "caller", [&] { return ++asked > 1; });
  const PlanDesk::Asker asker = calls.AskerOf(7);
  EXPECT_EQ(asker.turn.caller, "caller");
  EXPECT_FALSE(asker.turn.execution);
  EXPECT_FALSE(asker.gone());
  EXPECT_TRUE(asker.gone());
  calls.Answer(7, absl::NotFoundError("none"));
  calls.Answer(7, absl::NotFoundError("none"));
  EXPECT_EQ(replies, 1);
  EXPECT_TRUE(asker.gone());
  EXPECT_EQ(asked, 2) << "the call's context was used after its end";
}

TEST(OpenCallsTest, NoCallerWaitsForACallThatIsNotOpen) {
  OpenCalls calls;
  EXPECT_TRUE(calls.AskerOf(1).gone());
}

TEST(OpenCallsTest, AnswerAllAnswersEveryCallOnce) {
  OpenCalls calls;
  int replies = 0;
  for (CallId id : {1, 2, 3}) {
    calls.Add(
        id, [&](const absl::StatusOr<Reply>& reply) { replies += reply.ok() ? 0 : 1; }, "",
        nullptr);
  }
  const PlanDesk::Asker asker = calls.AskerOf(2);
  EXPECT_FALSE(asker.gone());
  calls.AnswerAll(absl::UnavailableError("stops"));
  calls.AnswerAll(absl::UnavailableError("stops"));
  EXPECT_EQ(replies, 3);
  EXPECT_TRUE(asker.gone());
}

}  // namespace
}  // namespace remesh::server
