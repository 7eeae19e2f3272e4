// SPDX-License-Identifier: Apache-2.0
// Lists of what workers hold and owe; held_test.cc tests the rule itself.
#include "server/controller/reconcile/reconcile.h"

#include "server/controller/reconcile/owed.h"
#include "server/controller/testing/states_test_world.h"

namespace remesh::server {
namespace {

using Kind = Verdict::Kind;

class ReconcileTest : public StatesTestWorld {
 protected:
  void SetUp() override {
    Attach("a");
    Attach("b");
    uid_ = Create({"a"});
    Clear();
  }
  void Hold(const std::string& host, const std::string& uid, int64_t generation) {
    membership_.Hold(host, Manifest(kState, uid, generation));
  }
  std::vector<Judgement> Judged() {
    const auto unknown = [](const std::string&) -> const v1::Execution* { return nullptr; };
    return Reconcile(HeldOfState(kState, membership_.workers()),
                     {.states = states_.registry(),
                      .workers = membership_.workers(),
                      .tombstones = states_.tombstones(),
                      .execution = unknown});
  }
  void Bury(const std::string& uid) {
    states_.OnDeleted({.name = "none", .gone = {{{kState, uid}, {.hosts = {"a"}}}}}, out_);
  }

  std::string uid_;
};

TEST_F(ReconcileTest, AHostIsToldOnceToForgetAState) {
  Bury("dead");
  Hold("a", "dead", 1);
  Hold("a", "dead", 2);
  Hold("b", "dead", 2);
  const std::vector<Judgement> judged = Judged();
  ASSERT_EQ(judged.size(), 2u);
  EXPECT_EQ(judged[0].verdict.kind, Kind::kForget);
  EXPECT_TRUE(judged[0].command->has_forget_state());
  EXPECT_EQ(judged[0].gone.size(), 2u);
  EXPECT_EQ(judged[1].held.host, "b");
  EXPECT_EQ(judged[1].gone.size(), 1u);
}

TEST_F(ReconcileTest, WhatStaysHasNoCommandAndWhoIsAwayIsNotJudged) {
  Hold("a", uid_, 1);
  Hold("b", "unknown", 1);
  const std::vector<Judgement> judged = Judged();
  ASSERT_EQ(judged.size(), 2u);
  EXPECT_EQ(judged[0].verdict.kind, Kind::kKeep);
  EXPECT_EQ(judged[1].verdict.kind, Kind::kOwed);
  for (const Judgement& judgement : judged) {
    EXPECT_FALSE(judgement.command.has_value());
    EXPECT_TRUE(judgement.gone.empty());
  }
  membership_.Keep({"b"});
  membership_.EndStream(2, now_, out_);
  EXPECT_EQ(Judged().size(), 1u);
}

TEST_F(ReconcileTest, AnAttemptEndsAsItsExecutionDid) {
  v1::Execution execution;
  execution.set_name("jobs/j/executions/e");
  execution.set_state(kState);
  execution.set_phase(v1::Execution::TRANSFERRING);
  EXPECT_FALSE(ReconcileAttempt(execution).has_value());
  execution.set_phase(v1::Execution::CANCELLED);
  EXPECT_EQ(ReconcileAttempt(execution)->abort().attempt().execution(), execution.name());
  execution.set_phase(v1::Execution::SUCCEEDED);
  EXPECT_EQ(ReconcileAttempt(execution)->commit().state(), kState);
}

class OwedTest : public ReconcileTest {
 protected:
  void Note(const std::string& host, int64_t generation, bool newer, bool durable = true) {
    owed_.Note({.host = host, .manifest = Manifest(kState, "u", generation)},
               {.kind = Kind::kOwed, .reason = "unknown", .newer = newer}, durable, out_);
  }
  static ManifestKey Key(int64_t generation) { return KeyOf(Manifest(kState, "u", generation)); }

  const StateKey state_{.name = kState, .uid = "u"};
  Owed owed_;
};

TEST_F(OwedTest, AHostIsNewerUntilTheLastOfItsNewerGenerationsIsGone) {
  Note("a", 2, true);
  Note("a", 3, true);
  Note("a", 1, false);
  Note("b", 2, true, /*durable=*/false);  // the word of an unknown host
  EXPECT_EQ(owed_.NewerHosts(state_), std::set<std::string>{"a"});
  EXPECT_EQ(owed_.entries().size(), 4u);
  EXPECT_EQ(owed_.NewerOf(kState).size(), 3u);
  owed_.Drop("a", Key(2));
  EXPECT_EQ(owed_.NewerHosts(state_), std::set<std::string>{"a"});
  Note("a", 3, false);  // more is known by now
  EXPECT_TRUE(owed_.NewerHosts(state_).empty());
  ASSERT_EQ(owed_.NewerOf(kState).size(), 1u);
  EXPECT_EQ(owed_.NewerOf(kState)[0].host, "b");
  EXPECT_NE(owed_.Find("a", Key(3)), nullptr);
}

TEST_F(OwedTest, IsFoundByStateAndHost) {
  Note("a", 1, false);
  Note("b", 2, false);
  EXPECT_EQ(owed_.OfState(kState).size(), 2u);
  EXPECT_TRUE(owed_.OfState("jobs/j/states/t").empty());
  EXPECT_EQ(owed_.OnHost("b", state_)->discarded_size(), 1);
  EXPECT_EQ(GetErrorInfo(owed_.OnHost("b", {kState, "v"}).status()).reason, "NOT_OWED");
}

}  // namespace
}  // namespace remesh::server
