// SPDX-License-Identifier: Apache-2.0
// How executions start: moves that have nothing to do, and those that leave lost hosts behind.
#include "server/controller/executions/starts.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/controller/testing/executions_test_world.h"

namespace remesh::server {
namespace {

class StartsTest : public ExecutionsTestWorld {
 protected:
  static PlannedExecution Unmoved() {
    PlannedExecution move;
    move.target = PlaceOn({"a"});
    move.moves_nothing = true;
    return move;
  }
  // Answers the last question.
  std::optional<server::Launch> Plan(PlannedExecution move) {
    return starts_.OnPlanned({.id = Did<StartPlanning>().back().id, .move = std::move(move)}, now_,
                             out_);
  }
  // Starts a move that has nothing to do, and returns its name.
  std::string Stay(CallId call, const std::string& request_id) {
    starts_.Start(call, Request(request_id), now_, out_);
    std::optional<server::Launch> launch = Plan(Unmoved());
    EXPECT_TRUE(launch.has_value());
    const std::string name = launch->entry.execution.resource().name();
    executions_.Add(std::move(launch->entry));
    return name;
  }
  v1::Execution Answered(CallId call) {
    const auto replies = Replies(call);
    EXPECT_EQ(replies.size(), 1u);
    EXPECT_TRUE(replies.at(0).ok()) << replies.at(0).status();
    return std::get<v1::Execution>(*replies.at(0));
  }
};

TEST_F(StartsTest, AMoveToWhereTheStateIsEndsAsItStarts) {
  now_.wall += absl::Seconds(2);
  starts_.Start(1, Request("id"), now_, out_);
  std::optional<server::Launch> launch = Plan(Unmoved());
  ASSERT_TRUE(launch.has_value());
  EXPECT_TRUE(launch->entry.execution.ended());
  EXPECT_TRUE(launch->reliance.hosts.empty());
  EXPECT_EQ(launch->reliance.records.size(), 2u) << "it and its request";
  const std::string name = launch->entry.execution.resource().name();
  executions_.Add(std::move(launch->entry));
  EXPECT_TRUE(Replies(1).empty()) << "it is not on disk";
  EXPECT_FALSE(starts_.reserves(kState));
  Stored(name);
  const v1::Execution told = Answered(1);
  EXPECT_EQ(told.name(), name);
  EXPECT_EQ(told.phase(), v1::Execution::SUCCEEDED);
  EXPECT_EQ(told.source_generation(), 1);
  EXPECT_EQ(told.target_generation(), 1);
  EXPECT_EQ(told.summary().total_bytes(), 0);
  EXPECT_EQ(told.hosts_size(), 0);
  EXPECT_EQ(told.state_uid(), uid_);
  EXPECT_EQ(told.end_time().seconds(), 2);
  EXPECT_TRUE(executions_.running().empty());
  EXPECT_TRUE(Did<SendToWorker>().empty());
  EXPECT_TRUE(Did<ReleasePlan>().empty());
  ASSERT_EQ(Did<ExecutionEnded>().size(), 1u);
  EXPECT_EQ(Did<ExecutionEnded>()[0].phase, v1::Execution::SUCCEEDED);
  EXPECT_EQ(PhaseOf(*Find(), membership_.workers()), v1::State::READY);
}

TEST_F(StartsTest, ARepeatedRequestGetsTheMoveThatHadNothingToDo) {
  const std::string name = Stay(1, "id");
  starts_.Start(2, Request("id"), now_, out_);
  EXPECT_TRUE(Replies(2).empty()) << "it is not on disk";
  Stored(name);
  starts_.Start(3, Request("id"), now_, out_);
  for (const CallId call : {1, 2, 3}) EXPECT_EQ(Answered(call).name(), name);
  v1::StartExecutionRequest other = Request("id");
  other.set_lose_absent_hosts(true);
  starts_.Start(4, other, now_, out_);
  EXPECT_EQ(GetErrorInfo(Replies(4).at(0).status()).reason, "REQUEST_ID_REUSED");
}

// While the disk is slow, more of them wait for it than the server remembers.
TEST_F(StartsTest, MovesThatHaveNothingToDoDoNotPileUp) {
  options_.finished_executions_max = 4;
  std::vector<std::string> names;
  for (CallId call = 1; call <= 20; ++call) {
    now_.wall += absl::Seconds(1);
    names.push_back(Stay(call, absl::StrCat(call)));
  }
  executions_.Proceed(now_, out_);
  EXPECT_EQ(executions_.entries().size(), 20u) << "none is answered";
  for (const std::string& name : names) Stored(name);
  EXPECT_EQ(executions_.entries().size(), 4u);
  for (CallId call = 1; call <= 20; ++call) EXPECT_EQ(Answered(call).name(), names[call - 1]);
}

TEST_F(StartsTest, AMoveThatHasNothingToDoNeedsAReadyState) {
  starts_.Start(1, Request(), now_, out_);
  membership_.EndStream(1, now_, out_);
  EXPECT_FALSE(Plan(Unmoved()).has_value());
  EXPECT_EQ(GetErrorInfo(Replies(1).at(0).status()).reason, "STATE_NOT_READY");
}

TEST_F(StartsTest, AskedOnlyAMoveThatHasNothingToDoSaysSo) {
  v1::StartExecutionRequest request = Request();
  request.set_validate_only(true);
  starts_.Start(1, request, now_, out_);
  EXPECT_FALSE(Plan(Unmoved()).has_value());
  EXPECT_EQ(Answered(1).name(), "");
  EXPECT_EQ(Answered(1).target_generation(), 1);
  EXPECT_EQ(Answered(1).summary().total_bytes(), 0);
}

// A plan that was found or made on the way is let go.
TEST_F(StartsTest, AMoveThatHasNothingToDoKeepsNoPlan) {
  starts_.Start(1, Request(), now_, out_);
  PlannedExecution move = Unmoved();
  move.plan = "plans/p";
  move.hosts["a"] = PlaceOn({"a"})->hosts.at("a").devices;
  const std::optional<server::Launch> launch = Plan(std::move(move));
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(launch->entry.execution.resource().plan(), "plans/p");
  EXPECT_EQ(Did<ReleasePlan>().size(), 1u);
  EXPECT_FALSE(launch->entry.keeps_plan);
}

TEST_F(StartsTest, WhatTheTargetsDoNotNameMayNotStayOnADrainedHost) {
  auto placed = std::make_shared<PlacedState>(*PlaceOn({"a"}));
  placed->arrays.Add()->set_name("w");
  states_.EndExecution(
      {.state = kState, .abandoned_generation = 0, .generation = 1, .target = placed}, out_);
  membership_.SetDrained("a", true);
  starts_.Start(1, Request(), now_, out_);
  ASSERT_EQ(Replies(1).size(), 1u);
  const ErrorInfo info = GetErrorInfo(Replies(1).at(0).status());
  EXPECT_EQ(info.metadata.at("field"), "targets.arrays");
  EXPECT_EQ(info.metadata.at("value"), "w");
  v1::StartExecutionRequest named = Request();
  named.mutable_targets()->add_arrays()->set_name("w");
  starts_.Start(2, named, now_, out_);
  EXPECT_TRUE(Plan(Unmoved()).has_value()) << "nothing new is placed there";
}

// A state on a, b and c, each of which holds all of it.
class LosingStartsTest : public StartsTest {
 protected:
  void SetUp() override {
    for (const char* host : {"a", "b", "c", "d"}) Attach(host);
    uid_ = Create({"a", "b", "c"});
    for (const char* host : {"a", "b", "c"}) membership_.Hold(host, Manifest(kState, uid_, 1));
    Clear();
  }

  static v1::StartExecutionRequest Losing(const std::vector<int64_t>& lost = {}) {
    v1::StartExecutionRequest request = Request();
    request.set_lose_absent_hosts(true);
    for (const int64_t id : lost) request.mutable_options()->add_lost_device_ids(id);
    return request;
  }
  void Lose(StreamId stream) { membership_.EndStream(stream, now_, out_); }
  // What the last question calls lost; a host's device has its name.
  std::string Asked() {
    const StartPlanning question = Did<StartPlanning>().back();
    std::string lost;
    for (const int64_t id : question.options.lost_device_ids()) lost += static_cast<char>(id);
    return lost;
  }
  // The answer to the last question: a move from the rest to d.
  std::optional<server::Launch> PlanAsAsked() {
    PlannedExecution move;
    move.target = PlaceOn({"d"});
    move.plan = "plans/p";
    const std::string lost = Asked();
    move.lost_device_ids = {lost.begin(), lost.end()};
    for (const char host : std::string("abcd")) {
      const std::string name(1, host);
      if (lost.find(host) != std::string::npos) {
        move.spared_hosts.insert(name);
      } else {
        move.hosts[name] = PlaceOn({name})->hosts.at(name).devices;
      }
    }
    return Plan(std::move(move));
  }
  std::string Refused(CallId call) {
    const auto replies = Replies(call);
    return replies.empty() ? "" : GetErrorInfo(replies.at(0).status()).reason;
  }
};

TEST_F(LosingStartsTest, TheHostsThatAreLostAreLeftBehind) {
  Lose(2);
  starts_.Start(1, Request(), now_, out_);
  EXPECT_EQ(Refused(1), "STATE_NOT_READY");
  starts_.Start(2, Losing(), now_, out_);
  EXPECT_EQ(Asked(), "b");
  const std::optional<server::Launch> launch = PlanAsAsked();
  ASSERT_TRUE(launch.has_value());
  const v1::Execution& execution = launch->entry.execution.resource();
  ASSERT_EQ(execution.lost_device_ids_size(), 1);
  EXPECT_EQ(execution.lost_device_ids(0), 'b');
  EXPECT_EQ(execution.target_generation(), 2);
}

TEST_F(LosingStartsTest, DevicesThatTheRequestCallsLostAreLostToo) {
  Lose(2);
  starts_.Start(1, Losing({'c', 'b'}), now_, out_);
  EXPECT_EQ(Asked(), "cb");
}

TEST_F(LosingStartsTest, WithoutALostHostNothingIsLost) {
  starts_.Start(1, Losing(), now_, out_);
  EXPECT_EQ(Asked(), "");
  EXPECT_TRUE(PlanAsAsked().has_value());
}

TEST_F(LosingStartsTest, AStateThatIsNotSealedOrHasNewerHostsIsRefused) {
  v1::StateManifest unsealed = Manifest(kState, uid_, 1);
  unsealed.set_phase(v1::SHARD_PHASE_BUILDING);
  unsealed.set_sealed_shards(0);
  membership_.Hold("b", unsealed);
  starts_.Start(1, Losing(), now_, out_);
  EXPECT_EQ(Refused(1), "STATE_NOT_READY");
  EXPECT_NE(Replies(1).at(0).status().message().find("not sealed on b"), std::string::npos);
  membership_.Hold("b", Manifest(kState, uid_, 1));
  states_.SetNewerHosts({.name = kState, .uid = uid_}, {"d"}, out_);
  starts_.Start(2, Losing(), now_, out_);
  EXPECT_EQ(Refused(2), "STATE_NOT_READY");
  EXPECT_NE(Replies(2).at(0).status().message().find("is on d"), std::string::npos);
  EXPECT_TRUE(Did<StartPlanning>().empty());
}

TEST_F(LosingStartsTest, OfAPlanItIsRefused) {
  v1::StartExecutionRequest request = Losing();
  request.set_plan("plans/p");
  starts_.Start(1, request, now_, out_);
  EXPECT_EQ(GetErrorInfo(Replies(1).at(0).status()).metadata["field"], "lose_absent_hosts");
}

TEST_F(LosingStartsTest, AHostThatIsLostWhileTheMoveIsPlannedIsPlannedAround) {
  starts_.Start(1, Losing(), now_, out_);
  Lose(2);
  EXPECT_FALSE(PlanAsAsked().has_value());
  EXPECT_TRUE(Replies(1).empty());
  EXPECT_TRUE(starts_.reserves(kState));
  EXPECT_EQ(Did<ReleasePlan>().size(), 1u);
  EXPECT_EQ(Asked(), "b");
  EXPECT_TRUE(PlanAsAsked().has_value());
}

TEST_F(LosingStartsTest, AHostThatComesBackWhileTheMoveIsPlannedStaysBehind) {
  Lose(2);
  starts_.Start(1, Losing(), now_, out_);
  Attach("b");
  membership_.Hold("b", Manifest(kState, uid_, 1));
  const std::optional<server::Launch> launch = PlanAsAsked();
  ASSERT_TRUE(launch.has_value());
  EXPECT_FALSE(launch->reliance.hosts.contains("b"));
}

TEST_F(LosingStartsTest, ItPlansThreeTimesAtMost) {
  starts_.Start(1, Losing(), now_, out_);
  for (const StreamId stream : {1, 2}) {
    Lose(stream);
    EXPECT_FALSE(PlanAsAsked().has_value());
    EXPECT_TRUE(Replies(1).empty());
  }
  Lose(3);
  EXPECT_FALSE(PlanAsAsked().has_value());
  EXPECT_EQ(Refused(1), "STATE_NOT_READY");
  EXPECT_NE(Replies(1).at(0).status().message().find("while each of 3 plans was made"),
            std::string::npos);
  EXPECT_EQ(Did<StartPlanning>().size(), 3u);
  EXPECT_FALSE(starts_.reserves(kState));
}

}  // namespace
}  // namespace remesh::server
