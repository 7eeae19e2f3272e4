// SPDX-License-Identifier: Apache-2.0
// The rule of what may be freed, as a table.
#include "server/controller/reconcile/held.h"

#include <gtest/gtest.h>

namespace remesh::server {
namespace {

using Kind = Verdict::Kind;

constexpr char kState[] = "jobs/j/states/s";

// State s, uid "u", at generation 3 on a and b; generation 5 was given up.
class HeldTest : public testing::Test {
 protected:
  HeldTest() {
    auto placed = std::make_shared<PlacedState>();
    for (const char* host : {"a", "b"}) placed->hosts[host].shards.emplace_back();
    StateEntry entry{.placed = placed};
    entry.declared.set_name(kState);
    entry.declared.set_uid("u");
    entry.declared.set_generation(3);
    entry.declared.set_abandoned_generation(5);
    states_.Add(entry);
    tombstones_.Add({kState, "deleted"}, tombstones_.Make({"a"}));
    AddExecution("failed", v1::Execution::FAILED, 4);
    AddExecution("running", v1::Execution::TRANSFERRING, 4);
    AddExecution("succeeded", v1::Execution::SUCCEEDED, 3);
    for (const char* host : {"a", "b", "c"}) {
      v1::Register registration;
      registration.set_host(host);
      workers_.Attach(static_cast<StreamId>(*host), registration, Moment{});
    }
  }

  void AddExecution(const std::string& name, v1::Execution::Phase phase, int64_t generation) {
    executions_[name].set_name(name);
    executions_[name].set_state_uid("u");
    executions_[name].set_phase(phase);
    executions_[name].set_target_generation(generation);
  }
  static v1::StateManifest Manifest(int64_t generation, v1::ShardPhase phase,
                                    const std::string& execution = "", const std::string& uid = "u",
                                    int64_t shards = 1) {
    v1::StateManifest manifest;
    manifest.set_state(kState);
    manifest.set_state_uid(uid);
    manifest.set_generation(generation);
    manifest.set_phase(phase);
    manifest.set_execution(execution);
    manifest.set_total_shards(shards);
    return manifest;
  }
  void Hold(const std::string& host, int64_t generation, v1::ShardPhase phase) {
    const v1::StateManifest manifest = Manifest(generation, phase);
    workers_.Find(host)->manifests[KeyOf(manifest)] = manifest;
  }
  Verdict Of(const v1::StateManifest& manifest, const std::string& host = "a") {
    return Judge(host, manifest,
                 {.states = states_,
                  .workers = workers_,
                  .tombstones = tombstones_,
                  .execution = [this](const std::string& name) -> const v1::Execution* {
                    return executions_.contains(name) ? &executions_[name] : nullptr;
                  },
                  .replaced_later = replaced_later_});
  }

  StateRegistry states_;
  WorkerRegistry workers_;
  Tombstones tombstones_{{.states = 10, .hosts = 10}};
  std::map<std::string, v1::Execution> executions_;
  bool replaced_later_ = false;
};

constexpr auto kBuilding = v1::SHARD_PHASE_BUILDING, kReady = v1::SHARD_PHASE_READY,
               kPrepared = v1::SHARD_PHASE_PREPARED, kVerified = v1::SHARD_PHASE_VERIFIED;

TEST_F(HeldTest, OnlyWhatTheJournalProvesToBeFreeGoes) {
  const struct {
    const char* what;
    v1::StateManifest manifest;
    Kind kind;
    bool newer = false;
    std::string host = "a";
  } kCases[] = {
      {"deleted", Manifest(1, kReady, "", "deleted"), Kind::kForget},
      {"of an unknown uid", Manifest(1, kReady, "", "other"), Kind::kOwed},
      {"current", Manifest(3, kReady), Kind::kKeep},
      {"current, unsealed", Manifest(3, kBuilding), Kind::kKeep},
      {"current, where the state does not lie", Manifest(3, kReady), Kind::kOwed, false, "c"},
      {"current, of a host that only gave", Manifest(3, kReady, "", "u", 0), Kind::kKeep, false,
       "c"},
      {"a missed commit", Manifest(3, kVerified, "succeeded"), Kind::kCommit},
      {"committed, never verified", Manifest(3, kPrepared, "succeeded"), Kind::kOwed},
      {"failed", Manifest(4, kPrepared, "failed"), Kind::kAbort},
      {"failed, verified", Manifest(4, kVerified, "failed"), Kind::kAbort},
      {"running", Manifest(4, kVerified, "running"), Kind::kKeep},
      {"of an unknown execution", Manifest(4, kPrepared, "unknown"), Kind::kOwed},
      {"of one that may have committed", Manifest(6, kVerified, "unknown"), Kind::kOwed, true},
      {"newer", Manifest(6, kReady, "unknown"), Kind::kOwed, true},
      {"newer, unsealed", Manifest(6, kBuilding), Kind::kOwed, true},
      // Regression: any worker could make any state LOST.
      {"newer, of a host without part in the state", Manifest(6, kReady, "unknown"), Kind::kOwed,
       false, "c"},
      {"newer, of a host that says it took part", Manifest(6, kReady, "failed"), Kind::kOwed, false,
       "c"},
      {"given up", Manifest(5, kReady, "unknown"), Kind::kAbortCommit},
      {"given up, unsealed", Manifest(4, kBuilding, "failed"), Kind::kAbortCommit},
      {"older, the current one not everywhere", Manifest(2, kReady), Kind::kOwed},
  };
  for (const auto& test : kCases) {
    const Verdict verdict = Of(test.manifest, test.host);
    EXPECT_EQ(static_cast<int>(verdict.kind), static_cast<int>(test.kind)) << test.what;
    EXPECT_EQ(verdict.newer, test.newer) << test.what;
    EXPECT_EQ(verdict.reason.empty(), verdict.kind != Kind::kOwed) << test.what;
  }
}

TEST_F(HeldTest, ANewerGenerationOfAnyHostCountsWhereALaterJournalMayHaveMadeIt) {
  const v1::StateManifest newer = Manifest(6, kReady, "unknown");
  EXPECT_FALSE(Of(newer, "c").newer);
  replaced_later_ = true;
  EXPECT_TRUE(Of(newer, "c").newer);
  replaced_later_ = false;
  executions_["failed"].set_target_generation(6);
  executions_["failed"].add_hosts()->set_host("c");
  EXPECT_TRUE(Of(Manifest(6, kReady, "failed"), "c").newer);
}

TEST_F(HeldTest, AnOlderGenerationGoesWhenTheCurrentOneIsHeldEverywhere) {
  const auto retires = [this] { return Of(Manifest(2, kReady)).kind == Kind::kRetire; };
  Hold("a", 3, kReady);
  EXPECT_FALSE(retires());
  Hold("c", 3, kReady);  // not where the state lies
  EXPECT_FALSE(retires());
  Hold("b", 3, kVerified);
  EXPECT_FALSE(retires());
  Hold("b", 3, kBuilding);
  EXPECT_TRUE(retires());
  workers_.Detach('b');
  EXPECT_FALSE(retires());
}

}  // namespace
}  // namespace remesh::server
