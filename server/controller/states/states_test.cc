// SPDX-License-Identifier: Apache-2.0
// States, without executions.
#include "server/controller/testing/placed_test_boxes.h"
#include "server/controller/testing/states_test_world.h"

namespace remesh::server {
namespace {

using StatesTest = StatesTestWorld;

TEST_F(StatesTest, AStateExistsOnceItIsOnDisk) {
  Attach("a");
  const auto asked = states_.Create(1, Asked({"a"}, "id"), now_, out_);
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->hosts, std::set<std::string>{"a"});
  EXPECT_TRUE(states_.creating(kState));
  EXPECT_EQ(Find(), nullptr);
  EXPECT_FALSE(states_.Create(2, Asked({"a"}, "id"), now_, out_).has_value());  // it joins
  EXPECT_TRUE(Replies(1).empty());
  EXPECT_TRUE(Replies(2).empty());

  states_.OnCreated(std::get<StateCreated>(asked->then), out_);
  EXPECT_TRUE(Replies(1).at(0).ok());
  EXPECT_TRUE(Replies(2).at(0).ok());
  EXPECT_EQ(Sent(1, v1::AttachResponse::kAssignState), 1);
  EXPECT_FALSE(states_.Create(3, Asked({"a"}, "other"), now_, out_).has_value());
  EXPECT_EQ(Replies(3).at(0).status().code(), absl::StatusCode::kAlreadyExists);
}

// Regression: of processes that all create a state, one was told that it exists, asked for it, and
// did not find it.
TEST_F(StatesTest, NoCallerIsToldOfAStateBeforeItCanBeFound) {
  Attach("a");
  const auto asked = states_.Create(1, Asked({"a"}), now_, out_);
  ASSERT_TRUE(asked.has_value());
  EXPECT_FALSE(states_.Create(2, Asked({"a"}, "other"), now_, out_).has_value());
  EXPECT_TRUE(Replies(2).empty());
  states_.OnCreated(std::get<StateCreated>(asked->then), out_);
  EXPECT_TRUE(Replies(1).at(0).ok());
  EXPECT_EQ(Replies(2).at(0).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(StatesTest, WhereNoWorkerIsAttachedNothingIsCreated) {
  EXPECT_FALSE(states_.Create(1, Asked({"a"}), now_, out_).has_value());
  EXPECT_EQ(GetErrorInfo(Replies(1).at(0).status()).reason, "HOST_NOT_ATTACHED");
}

TEST_F(StatesTest, OnlyAnExecutionThatSucceededMovesTheState) {
  Attach("a");
  Create({"a"});
  states_.BeginExecution(kState, "jobs/j/executions/e", nullptr);
  EXPECT_EQ(PhaseOf(*Find(), membership_.workers()), v1::State::MOVING);
  states_.EndExecution({.state = kState, .abandoned_generation = 2, .generation = 2, .target = {}},
                       out_);
  EXPECT_EQ(Find()->generation(), 1);
  EXPECT_EQ(Find()->declared.abandoned_generation(), 2);
  states_.BeginExecution(kState, "jobs/j/executions/f", nullptr);
  states_.EndExecution({.state = kState, .generation = 3, .target = PlaceOn({"b"})}, out_);
  EXPECT_EQ(Find()->generation(), 3);
  EXPECT_TRUE(Find()->placed->hosts.contains("b"));
  EXPECT_TRUE(Find()->execution.empty());
}

// Regression: a trainer on a host without shards waited for the next generation until its deadline.
TEST_F(StatesTest, AHostWithoutShardsWhoseTrainerAskedIsToldOfEveryGeneration) {
  Attach("a");
  Attach("b");
  Create({"a"});
  states_.OnWanted("b", kState, out_);
  Clear();
  states_.BeginExecution(kState, "jobs/j/executions/e", nullptr);
  states_.EndExecution({.state = kState, .generation = 2, .target = PlaceOn({"a"})}, out_);
  ASSERT_EQ(Did<SendToWorker>().size(), 1u);
  const v1::Assignment told = Did<SendToWorker>()[0].message.assign_state().assignment();
  EXPECT_EQ(told.generation(), 2);
  EXPECT_TRUE(told.committed());
  EXPECT_EQ(told.shards_size(), 0);
}

TEST_F(StatesTest, ShardsAreAssignedInColumnsToWorkersThatKnowThem) {
  CreateState asked{.request = {}, .placed = nullptr};
  auto placed = std::make_shared<PlacedState>(*PlaceBoxes({{"a", 1, 0, 4}, {"b", 2, 4, 8}}));
  v1::AssignedArray& array = *placed->arrays.Add();
  array.set_name("w");
  array.add_shape(8);
  asked.placed = placed;
  asked.request.mutable_state()->set_name(kState);
  v1::Register knows = Registration("a");
  knows.set_supports_short_assign_state(true);
  Attach(knows);
  Attach("b");
  const auto created = states_.Create(1, asked, now_, out_);
  ASSERT_TRUE(created.has_value());
  Clear();
  states_.OnCreated(std::get<StateCreated>(created->then), out_);
  std::vector<v1::Assignment> assigned;
  for (const SendLater& send : Did<SendLater>()) {
    for (const v1::AttachResponse& command : send.commands.make())
      assigned.push_back(command.assign_state().assignment());
  }
  ASSERT_EQ(assigned.size(), 2u);
  EXPECT_EQ(assigned[0].shards_size(), 0);
  EXPECT_EQ(assigned[0].columns().devices_size(), 1);
  EXPECT_EQ(assigned[1].shards_size(), 1);
  EXPECT_FALSE(assigned[1].has_columns());
}

// Regression: each host that came back had all that the others owe judged again.
TEST_F(StatesTest, WhetherAStateIsHeldIsLookedForWhereAHostWasMissing) {
  for (const char* host : {"a", "b", "c"}) Attach(host);
  const std::string uid = Create({"a", "b", "c"});
  EXPECT_FALSE(states_.IsHeldNow(kState));
  for (const char* host : {"a", "c"}) membership_.Hold(host, Manifest(kState, uid, 1));
  EXPECT_FALSE(states_.IsHeldNow(kState));
  EXPECT_EQ(Find()->missing_host, "b");
  membership_.EndStream(1, now_, out_);  // that of a
  membership_.Hold("b", Manifest(kState, uid, 1));
  EXPECT_FALSE(states_.IsHeldNow(kState));
  EXPECT_EQ(Find()->missing_host, "a");
  Attach("a");
  membership_.Hold("a", Manifest(kState, uid, 1));
  EXPECT_TRUE(states_.IsHeldNow(kState));
}

// Each host that attached had the hosts of all states searched for it.
TEST_F(StatesTest, TheStatesOnAHostAreFoundByItsName) {
  for (const char* host : {"a", "b"}) Attach(host);
  Create({"a"});
  const std::vector<std::string> names = {kState};
  EXPECT_EQ(states_.registry().NamesOn("a"), names);
  states_.BeginExecution(kState, "jobs/j/executions/e", nullptr);
  states_.EndExecution({.state = kState, .generation = 2, .target = PlaceOn({"b"})}, out_);
  EXPECT_TRUE(states_.registry().NamesOn("a").empty());
  EXPECT_EQ(states_.registry().NamesOn("b"), names);
  states_.OnDeleted({.name = kState}, out_);
  EXPECT_TRUE(states_.registry().NamesOn("b").empty());
}

// Regression: all shards of a large state were made at once, in one turn.
TEST_F(StatesTest, WhatAHostIsToldOfANewStateIsMadeWhenItCanBeWritten) {
  Attach("a");
  Attach("b");
  Clear();
  Create({"a", "b"});
  EXPECT_TRUE(Did<SendToWorker>().empty());
  ASSERT_EQ(Did<SendLater>().size(), 2u);
  EXPECT_GT(Did<SendLater>()[0].commands.bytes, 0u);
  for (const StreamId stream : {1, 2}) {
    EXPECT_EQ(Sent(stream, v1::AttachResponse::kAssignState), 1);
  }
}

// Regression: a host that held nothing at the end of a move that took its shards away got neither
// Commit nor Retire. It kept its old assignment, and handed out buffers that were then retired.
TEST_F(StatesTest, AHostThatLosesItsShardsIsToldThatItHasNone) {
  Attach("a");
  Attach("b");
  Create({"a", "b"});
  Clear();
  states_.BeginExecution(kState, "jobs/j/executions/e", nullptr);
  states_.EndExecution({.state = kState, .generation = 2, .target = PlaceOn({"a"})}, out_);
  ASSERT_EQ(Did<SendToWorker>().size(), 1u);
  const v1::Assignment told = Did<SendToWorker>()[0].message.assign_state().assignment();
  EXPECT_EQ(told.generation(), 2);
  EXPECT_TRUE(told.committed());
  EXPECT_EQ(told.shards_size(), 0);
}

// Regression: nothing said on which host a state waited for its shards.
TEST_F(StatesTest, HostsThatHaveNotSealedAreNamed) {
  Attach("a");
  Attach("b");
  const std::string uid = Create({"a", "b"});
  const auto unsealed = [&] {
    const v1::State state = ToProto(*Find(), membership_.workers());
    return std::vector<std::string>(state.unsealed_hosts().begin(), state.unsealed_hosts().end());
  };
  EXPECT_EQ(unsealed(), (std::vector<std::string>{"a", "b"}));
  v1::StateManifest manifest = Manifest(kState, uid, 1);
  manifest.set_sealed_shards(100);
  membership_.Hold("a", manifest);
  EXPECT_EQ(unsealed(), (std::vector<std::string>{"b"}));
}

TEST_F(StatesTest, ANewerGenerationMakesTheStateLostUntilItIsGone) {
  Attach("a");
  const StateKey key{.name = kState, .uid = Create({"a"})};
  Clear();
  states_.SetNewerHosts(key, {"b"}, out_);
  EXPECT_EQ(PhaseOf(*Find(), membership_.workers()), v1::State::LOST);
  EXPECT_EQ(out_.TakeTouched(), std::set<std::string>{kState});
  states_.SetNewerHosts(key, {"b"}, out_);
  EXPECT_TRUE(out_.TakeTouched().empty());
  states_.SetNewerHosts({.name = kState, .uid = "another"}, {}, out_);
  EXPECT_EQ(PhaseOf(*Find(), membership_.workers()), v1::State::LOST);
  states_.SetNewerHosts(key, {}, out_);
  EXPECT_EQ(PhaseOf(*Find(), membership_.workers()), v1::State::BUILDING);
}

TEST(WantedTest, AHostWaitsForThoseThatItAskedForLast) {
  Wanted wanted;
  wanted.Add("b", "first");
  for (size_t i = 0; i <= Wanted::kOfHostMax; ++i) {
    wanted.Add("a", i == 0 ? "first" : absl::StrCat("s", i));
    wanted.Add("a", "s1");  // again
  }
  EXPECT_EQ(wanted.HostsOf("first"), std::vector<std::string>{"b"});
  EXPECT_EQ(wanted.HostsOf("s1"), std::vector<std::string>{"a"});
  wanted.Add("b", "s1");
  wanted.DropState("s1");
  EXPECT_TRUE(wanted.HostsOf("s1").empty());
  wanted.DropHost("a");
  EXPECT_TRUE(wanted.HostsOf("s2").empty());
  EXPECT_EQ(wanted.HostsOf("first"), std::vector<std::string>{"b"});
}

// What an unknown execution prepared does not belong to the generation of the same number.
TEST_F(StatesTest, PendingShardsDoNotStandForCommittedOnes) {
  Attach("a");
  const std::string uid = Create({"a"});
  states_.BeginExecution(kState, "jobs/j/executions/e", nullptr);
  states_.EndExecution({.state = kState, .generation = 2, .target = PlaceOn({"a"})}, out_);
  v1::StateManifest manifest = Manifest(kState, uid, 2);
  for (const auto& [phase, seen] : {std::pair{v1::SHARD_PHASE_PREPARED, v1::State::LOST},
                                    std::pair{v1::SHARD_PHASE_VERIFIED, v1::State::LOST},
                                    std::pair{v1::SHARD_PHASE_BUILDING, v1::State::BUILDING},
                                    std::pair{v1::SHARD_PHASE_READY, v1::State::READY}}) {
    manifest.set_phase(phase);
    membership_.Hold("a", manifest);
    const v1::State state = ToProto(*Find(), membership_.workers());
    EXPECT_EQ(state.phase(), seen) << v1::ShardPhase_Name(phase);  // was: BUILDING
    EXPECT_EQ(state.lost_hosts_size(), seen == v1::State::LOST);
  }
}

class QuotaTest : public StatesTestWorld {
 protected:
  // Why it was refused; empty: it was not.
  std::string Why(const std::string& name, int64_t bytes) {
    CreateState create = Asked({"a"});
    create.request.mutable_state()->set_name(name);
    auto placed = std::make_shared<PlacedState>(*create.placed);
    placed->total_bytes = bytes;
    create.placed = placed;
    Clear();
    const auto asked = states_.Create(++last_call_, create, now_, out_);
    if (!asked) return std::string(Replies(last_call_).at(0).status().message());
    membership_.Keep(asked->hosts);
    states_.OnCreated(std::get<StateCreated>(asked->then), out_);
    return "";
  }
  CallId last_call_ = 0;
};

TEST_F(QuotaTest, AJobsStatesAreCounted) {
  options_.states_per_job = 2;
  Attach("a");
  EXPECT_EQ(Why("jobs/j/states/1", 10), "");
  EXPECT_EQ(Why("jobs/j/states/2", 10), "");
  EXPECT_EQ(Why("jobs/j/states/3", 10),
            "jobs/j may have states_per_job 2, and with this it would have 3");
  EXPECT_EQ(Why("jobs/j2/states/1", 10), "");  // another job, though its name begins alike
}

// Sums once became negative, and below every limit.
TEST_F(QuotaTest, SumsOfBytesDoNotWrap) {
  Attach("a");
  constexpr int64_t kHuge = (int64_t{1} << 62) + 1;
  EXPECT_EQ(Why("jobs/j/states/1", kHuge), "");
  EXPECT_EQ(Why("jobs/j/states/2", kHuge), "");
  options_.bytes_per_job = 100;
  EXPECT_EQ(Why("jobs/j/states/3", 1),
            "jobs/j may have bytes_per_job 100, and with this it would have 4611686018427387904");
}

TEST_F(QuotaTest, AJobsBytesAreCountedAndItsMovesToo) {
  options_.bytes_per_job = 100;
  Attach("a");
  EXPECT_EQ(Why("jobs/j/states/1", 60), "");
  EXPECT_EQ(Why("jobs/j/states/2", 41),
            "jobs/j may have bytes_per_job 100, and with this it would have 101");
  EXPECT_EQ(Why("jobs/j/states/2", 40), "");
  const StateEntry& state = *states_.registry().Find("jobs/j/states/1");
  PlacedState target = *state.placed;
  target.total_bytes = 61;
  const absl::Status grows = states_.CheckMove(state, target);
  EXPECT_EQ(GetErrorInfo(grows).reason, "JOB_QUOTA");
  EXPECT_EQ(GetErrorInfo(grows).metadata["job"], "jobs/j");
  options_.bytes_per_job = 50;  // since lowered
  target.total_bytes = 59;
  EXPECT_TRUE(states_.CheckMove(state, target).ok()) << "less is always allowed";
}

// Regression: such a state was declared, and only its trainers' Allocate failed.
TEST_F(QuotaTest, AStateThatDoesNotFitIntoItsHostsMemoryIsRefused) {
  v1::Register registration = Registration("a");
  registration.mutable_devices(0)->set_kind(v1::WorkerDevice::KIND_HOST);
  registration.mutable_devices(0)->set_memory_bytes(100);
  registration.set_lendable_bytes(50);
  Attach(registration);
  const auto refusal = [&](int64_t bytes) {
    CreateState create = Asked({"a"});
    auto placed = std::make_shared<PlacedState>(*create.placed);
    placed->hosts.at("a").bytes = bytes;
    create.placed = placed;
    create.request.set_validate_only(true);
    Clear();
    states_.Create(++last_call_, create, now_, out_);
    return Replies(last_call_).at(0).status();
  };
  EXPECT_TRUE(refusal(100).ok());
  const absl::Status too_large = refusal(101);
  EXPECT_EQ(too_large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(too_large).reason, "HOST_MEMORY");
  EXPECT_EQ(GetErrorInfo(too_large).metadata["host"], "a");
  EXPECT_EQ(GetErrorInfo(too_large).metadata["memory_bytes"], "100");
}

// Regression: a state that trainers would lend from their own memory was refused because it was
// larger than the worker's buffers.
TEST_F(QuotaTest, AStateThatTrainersMayLendIsNotRefused) {
  const auto allows = [&](int64_t lendable, bool write_once) {
    v1::Register registration = Registration("a");
    registration.mutable_devices(0)->set_kind(v1::WorkerDevice::KIND_HOST);
    registration.mutable_devices(0)->set_memory_bytes(100);
    registration.set_lendable_bytes(lendable);
    registration.set_supports_write_once(true);
    Attach(registration);
    CreateState create = Asked({"a"});
    create.request.mutable_state()->set_write_once(write_once);
    auto placed = std::make_shared<PlacedState>(*create.placed);
    placed->hosts.at("a").bytes = 200;
    create.placed = placed;
    create.request.set_validate_only(true);
    Clear();
    states_.Create(++last_call_, create, now_, out_);
    return Replies(last_call_).at(0).ok();
  };
  EXPECT_TRUE(allows(200, false));
  EXPECT_TRUE(allows(0, false)) << "a worker of an earlier version, which does not say it";
  EXPECT_FALSE(allows(199, false));
  EXPECT_FALSE(allows(200, true)) << "what is written once cannot be lent";
  EXPECT_FALSE(allows(0, true));
}

// Regression: only new states counted.
TEST_F(QuotaTest, AMoveToMoreShardsCountsTowardsThoseOfAllStates) {
  options_.state_entries_max = 10;
  Attach("a");
  EXPECT_EQ(Why("jobs/j/states/1", 10), "");
  const StateEntry& state = *states_.registry().Find("jobs/j/states/1");
  PlacedState target = *state.placed;
  target.total_shards = 10 - target.arrays.size();
  EXPECT_TRUE(states_.CheckMove(state, target).ok());
  target.total_shards += 1;
  EXPECT_EQ(GetErrorInfo(states_.CheckMove(state, target)).reason, "TOO_MANY_ARRAYS");
  options_.state_entries_max = 1;  // since lowered
  EXPECT_TRUE(states_.CheckMove(state, *state.placed).ok());
}

}  // namespace
}  // namespace remesh::server
