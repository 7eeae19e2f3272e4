// SPDX-License-Identifier: Apache-2.0
// What may be discarded without consent, as a table.
#include "server/controller/states/last_copy.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"

namespace remesh::server {
namespace {

// State s, uid "u", at generation 3 on a and b, which hold it.
class LastCopyTest : public testing::Test {
 protected:
  static constexpr char kState[] = "jobs/j/states/s";

  LastCopyTest() {
    auto placed = std::make_shared<PlacedState>();
    for (const char* host : {"a", "b"}) placed->hosts[host].shards.emplace_back();
    StateEntry entry{.placed = placed};
    entry.declared.set_name(kState);
    entry.declared.set_uid("u");
    entry.declared.set_generation(3);
    state_ = &states_.Add(entry);
    for (const char* host : {"a", "b", "c"}) {
      v1::Register registration;
      registration.set_host(host);
      workers_.Attach(static_cast<StreamId>(*host), registration, Moment{});
    }
    for (const char* host : {"a", "b"}) Hold(host, v1::SHARD_PHASE_READY);
  }

  static v1::StateManifest Manifest(int64_t generation, const std::string& uid = "u") {
    v1::StateManifest manifest;
    manifest.set_state(kState);
    manifest.set_state_uid(uid);
    manifest.set_generation(generation);
    manifest.set_phase(v1::SHARD_PHASE_READY);
    return manifest;
  }
  void Hold(const std::string& host, v1::ShardPhase phase) {
    v1::StateManifest manifest = Manifest(3);
    manifest.set_phase(phase);
    workers_.Find(host)->manifests[KeyOf(manifest)] = manifest;
  }
  std::string Why(const v1::StateManifest& owed) const {
    return WhyLastCopy(owed, states_, workers_).value_or("it is not");
  }

  StateRegistry states_;
  WorkerRegistry workers_;
  StateEntry* state_ = nullptr;
};

TEST_F(LastCopyTest, AStateThatIsWholeNeedsNoOtherCopy) {
  EXPECT_EQ(Why(Manifest(2)), "it is not");
  EXPECT_EQ(Why(Manifest(3)), "it is not");
  Hold("a", v1::SHARD_PHASE_BUILDING);  // a trainer writes it again
  EXPECT_EQ(Why(Manifest(2)), "it is not");
  state_->execution = "jobs/j/executions/e";  // MOVING
  EXPECT_EQ(Why(Manifest(2)), "it is not");
}

TEST_F(LastCopyTest, NothingKnownIsAsNewAsWhatTheJournalDoesNotKnow) {
  EXPECT_EQ(Why(Manifest(4)), "it is newer than generation 3, the last one known here");
  EXPECT_EQ(Why(Manifest(3, "another")), "no state of this name and uid is known here");
  states_.Remove(kState);
  EXPECT_EQ(Why(Manifest(1)), "no state of this name and uid is known here");
}

TEST_F(LastCopyTest, AStateOfWhichAHostIsAwayOrEmptyIsNotWhole) {
  workers_.Detach('b');
  EXPECT_EQ(Why(Manifest(2)), "host b of the state is away");
  state_->execution = "jobs/j/executions/e";  // the phase is MOVING, not LOST
  EXPECT_EQ(Why(Manifest(2)), "host b of the state is away");
  state_->execution.clear();
  workers_.Attach('b', workers_.Find("b")->registration, Moment{});
  EXPECT_EQ(Why(Manifest(2)), "host b lacks its shards of generation 3");
  Hold("b", v1::SHARD_PHASE_VERIFIED);
  EXPECT_EQ(Why(Manifest(2)), "host b lacks its shards of generation 3");
}

TEST_F(LastCopyTest, AStateOfWhichAHostHoldsANewerGenerationIsLost) {
  state_->newer_hosts = {"c"};
  EXPECT_EQ(Why(Manifest(2)), "host c holds a newer generation than the last one known here, 3");
}

TEST_F(LastCopyTest, TheErrorNamesEachGenerationAndHowToSaveIt) {
  v1::DiscardShardsRequest request;
  request.set_state(kState);
  request.set_state_uid("u");
  v1::DiscardShardsResponse response;
  for (int generation = 4; generation < 14; ++generation) {
    v1::OwedShards& last = *response.add_last_copies();
    *last.mutable_manifest() = Manifest(generation);
    last.set_reason("newer");
  }
  response.mutable_last_copies(1)->mutable_manifest()->set_phase(v1::SHARD_PHASE_VERIFIED);
  const absl::Status error = LastCopyError("a", request, response);
  const std::string message(error.message());
  EXPECT_NE(message.find("remeshctl get jobs/j/states/s FOLDER --generation 4"), std::string::npos)
      << message;
  EXPECT_NE(message.find("generation 5: newer; it is VERIFIED, not committed, and cannot be read"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("2 more"), std::string::npos) << message;
  EXPECT_NE(message.find("--yes"), std::string::npos) << message;
  EXPECT_EQ(GetErrorInfo(error).reason, "LAST_COPY");
  EXPECT_EQ(GetErrorInfo(error).metadata.at("generations"), "4,5,6,7,8,9,10,11");
}

}  // namespace
}  // namespace remesh::server
