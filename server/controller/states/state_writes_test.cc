// SPDX-License-Identifier: Apache-2.0
// What the writes of hosts, and copies on several hosts, make of a state's phase.
#include "server/controller/states/not_ready.h"
#include "server/controller/testing/placed_test_boxes.h"
#include "server/controller/testing/states_test_world.h"

namespace remesh::server {
namespace {

class StateWritesTest : public StatesTestWorld {
 protected:
  // a and b hold everything, c a half of it.
  void SetUp() override {
    for (const char* host : {"a", "b", "c"}) Attach(host);
    CreateState create = Asked({"a", "b", "c"});
    create.placed = PlaceBoxes(8, {{"a", 'a', 0, 8}, {"b", 'b', 0, 8}, {"c", 'c', 0, 4}});
    const auto asked = states_.Create(1, create, now_, out_);
    ASSERT_TRUE(asked.has_value());
    membership_.Keep(asked->hosts);
    states_.OnCreated(std::get<StateCreated>(asked->then), out_);
    for (const char* host : {"a", "b", "c"}) Seal(host, "6");
  }
  void Hold(const std::string& host, const std::string& write, v1::ShardPhase phase) {
    v1::StateManifest manifest = Manifest(kState, Find()->uid(), Find()->generation());
    manifest.set_phase(phase);
    manifest.set_sealed_shards(phase == v1::SHARD_PHASE_READY ? 1 : 0);
    manifest.set_write(write);
    membership_.Hold(host, manifest);
  }
  void Seal(const std::string& host, const std::string& write) {
    Hold(host, write, v1::SHARD_PHASE_READY);
  }
  void Unseal(const std::string& host, const std::string& write) {
    Hold(host, write, v1::SHARD_PHASE_BUILDING);
  }
  // Its stream ends.
  void Lose(const std::string& host) {
    const StreamId stream = membership_.workers().Find(host)->stream;
    for (const HostFact& fact : membership_.EndStream(stream, now_, out_)) {
      if (const HostAway* away = std::get_if<HostAway>(&fact)) states_.OnHostAway(*away, out_);
    }
  }
  v1::State Seen() { return ToProto(*Find(), membership_.workers()); }
  v1::State::Phase Decided() { return PhaseOf(*Find(), membership_.workers()); }
  std::string Why() { return std::string(NotReady(*Find(), membership_.workers()).message()); }
  static std::string WritesIn(const v1::State& state) {
    std::string writes;
    for (const v1::HostWrite& one : state.host_writes()) {
      absl::StrAppend(&writes, one.host(), "=", one.write(), " ");
    }
    return writes;
  }
};

// Regression: READY, while one host held the new content and another the old.
TEST_F(StateWritesTest, AStateIsReadyOnceAllHostsHaveSealedTheSameWrite) {
  EXPECT_EQ(Seen().phase(), v1::State::READY);
  EXPECT_EQ(Seen().write(), "6");
  Unseal("a", "7");
  EXPECT_EQ(Seen().phase(), v1::State::BUILDING);
  EXPECT_EQ(WritesIn(Seen()), "a=7 b=6 c=6 ");
  Seal("a", "7");
  EXPECT_EQ(Seen().phase(), v1::State::BUILDING);  // was: READY
  EXPECT_EQ(Seen().write(), "");
  EXPECT_EQ(Why(), "jobs/j/states/s is BUILDING, not READY; write 7 on a, 6 on b, 6 on c");
  Seal("b", "7");
  EXPECT_EQ(Why(), "jobs/j/states/s is BUILDING, not READY; write 7 on a, 7 on b, 6 on c");
  Seal("c", "7");
  EXPECT_EQ(Seen().phase(), v1::State::READY);
  EXPECT_EQ(Seen().write(), "7");
  EXPECT_TRUE(Seen().host_writes().empty());
}

TEST_F(StateWritesTest, AnOldWorkerNamesNoWriteAndLeavesTheStateBuilding) {
  Seal("c", "");
  EXPECT_EQ(Seen().phase(), v1::State::BUILDING);
  EXPECT_EQ(Why(), "jobs/j/states/s is BUILDING, not READY; write 6 on a, 6 on b, no write on c");
  Seal("a", "");
  Seal("b", "");
  EXPECT_EQ(Seen().phase(), v1::State::READY) << "as between old workers";
  EXPECT_EQ(Seen().write(), "");
}

TEST_F(StateWritesTest, AHostWithoutItsShardsLearnsWhichWriteItMustName) {
  membership_.Release("c", {kState, Find()->uid(), 1});
  EXPECT_EQ(Seen().phase(), v1::State::BUILDING);
  EXPECT_EQ(Seen().write(), "6");
  EXPECT_EQ(Why(),
            "jobs/j/states/s is BUILDING, not READY; not sealed on c; its other shards are of "
            "write 6");
}

TEST_F(StateWritesTest, HostsWithoutShardsDoNotCount) {
  Attach("d");
  Seal("d", "5");
  EXPECT_EQ(Seen().phase(), v1::State::READY);
}

TEST_F(StateWritesTest, AWriteOfStrangeBytesIsEscaped) {
  Seal("a", "7\n\x7f");
  EXPECT_EQ(Why(), "jobs/j/states/s is BUILDING, not READY; write 7\\n\\x7f on a, 6 on b, 6 on c");
}

TEST(HostWritesTest, OfManyHostsSomeAreNamedButEveryWrite) {
  HostWrites writes;
  for (int i = 10; i < 60; ++i) writes[absl::StrCat("h", i)] = i == 55 ? "7" : "6";
  const std::vector<v1::HostWrite> some = SomeOf(writes);
  ASSERT_EQ(some.size(), 16u);
  EXPECT_EQ(some.front().host(), "h10");
  EXPECT_EQ(some.back().host(), "h55");
  EXPECT_EQ(some.back().write(), "7");
  EXPECT_TRUE(Describe(writes).ends_with("6 on h24, 7 on h55, ...")) << Describe(writes);
  EXPECT_EQ(Describe({}), "");
  EXPECT_EQ(Describe({{"a", ""}, {"b", "6"}}), "no write on a, write 6 on b");
}

TEST_F(StateWritesTest, EveryHostIsToldOnHowManyHostsTheStateLies) {
  EXPECT_EQ(AssignmentHead(*Find()).hosts(), 3);
  states_.OnWanted("d", kState, out_);
  Attach("d");
  Clear();
  states_.OnWanted("d", kState, out_);
  ASSERT_EQ(Did<SendToWorker>().size(), 1u);
  EXPECT_EQ(Did<SendToWorker>()[0].message.assign_state().assignment().hosts(), 3);
}

// Regression: LOST, and an error that did not say what helps.
TEST_F(StateWritesTest, AStateOfWhichTheOtherHostsHoldAllIsDegraded) {
  Clear();
  Lose("a");
  EXPECT_EQ(Seen().phase(), v1::State::DEGRADED);  // was: LOST
  EXPECT_EQ(Decided(), v1::State::LOST) << "nothing is decided by it";
  EXPECT_EQ(Seen().write(), "6");
  EXPECT_EQ(Why(),
            "jobs/j/states/s is DEGRADED, not READY; away, or back without its shards: a; the "
            "other hosts hold all of it: remeshctl reshard jobs/j/states/s -f TARGETS "
            "--lose-absent-hosts (or --lost-devices 97) moves it to hosts that are there");
  EXPECT_TRUE(Did<Note>().back().line.ends_with("; DEGRADED until it is back: jobs/j/states/s"));
  Lose("c");
  EXPECT_EQ(Seen().phase(), v1::State::DEGRADED);
  EXPECT_NE(Why().find("--lost-devices 97,99)"), std::string::npos) << Why();
  Lose("b");
  EXPECT_EQ(Seen().phase(), v1::State::LOST);
  Attach("a");
  Seal("a", "6");
  EXPECT_EQ(Seen().phase(), v1::State::DEGRADED);
  EXPECT_NE(Why().find("--lost-devices 98,99)"), std::string::npos) << Why();
}

TEST_F(StateWritesTest, WithoutTheHostThatHoldsAllTheRestIsNotEnough) {
  Lose("b");
  Lose("a");
  EXPECT_EQ(Seen().phase(), v1::State::LOST);
  EXPECT_EQ(Why().find("remeshctl reshard"), std::string::npos) << Why();
}

TEST_F(StateWritesTest, ADegradedStateIsOfOneWrite) {
  Seal("a", "7");
  Lose("c");
  EXPECT_EQ(Seen().phase(), v1::State::LOST);
  EXPECT_EQ(Why(),
            "jobs/j/states/s is LOST, not READY; write 7 on a, 6 on b; away, or back without its "
            "shards: c");
  Seal("b", "7");
  EXPECT_EQ(Seen().phase(), v1::State::DEGRADED) << "whatever the lost host held";
  Unseal("b", "8");
  EXPECT_EQ(Seen().phase(), v1::State::LOST);
}

TEST_F(StateWritesTest, WhatHostsMayStillFillIsBuilding) {
  membership_.Release("a", {kState, Find()->uid(), 1});
  EXPECT_EQ(Seen().phase(), v1::State::BUILDING);
  Lose("c");
  EXPECT_EQ(Seen().phase(), v1::State::LOST);
}

TEST_F(StateWritesTest, AHostThatCameBackEmptyAfterAMoveIsAsOneThatIsAway) {
  states_.BeginExecution(kState, "jobs/j/executions/e", nullptr);
  states_.EndExecution({.state = kState, .generation = 2, .target = Find()->placed}, out_);
  for (const char* host : {"b", "c"}) Seal(host, "");
  EXPECT_EQ(Seen().phase(), v1::State::DEGRADED);
  EXPECT_EQ(Seen().lost_hosts(0), "a");
}

TEST_F(StateWritesTest, ANewerGenerationIsNeverDegraded) {
  Lose("a");
  states_.SetNewerHosts({.name = kState, .uid = Find()->uid()}, {"b"}, out_);
  EXPECT_EQ(Seen().phase(), v1::State::LOST);
}

TEST_F(StateWritesTest, LostHostsOfAMovedStateAreLookedAtInItsNewLayout) {
  Lose("a");
  EXPECT_EQ(Seen().phase(), v1::State::DEGRADED);
  const auto halves = PlaceBoxes(8, {{"a", 'a', 0, 4}, {"b", 'b', 4, 8}});
  states_.BeginExecution(kState, "jobs/j/executions/e", nullptr);
  EXPECT_EQ(Seen().phase(), v1::State::MOVING);
  states_.EndExecution({.state = kState, .generation = 2, .target = halves}, out_);
  Seal("b", "");
  EXPECT_EQ(Seen().phase(), v1::State::LOST);
}

TEST(ValidateWriteTest, AWriteIsAtMost64Bytes) {
  v1::StateManifest manifest;
  manifest.set_state("jobs/j/states/s");
  manifest.set_write(std::string(64, 'w'));
  EXPECT_TRUE(ValidateManifest(manifest).ok());
  manifest.set_write(std::string(65, 'w'));
  EXPECT_EQ(GetErrorInfo(ValidateManifest(manifest)).metadata["field"], "write");
}

}  // namespace
}  // namespace remesh::server
