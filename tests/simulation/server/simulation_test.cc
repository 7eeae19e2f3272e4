// SPDX-License-Identifier: Apache-2.0
// Law 4: no interleaving of crash, delay, loss and restart loses a generation or commits half of
// one. REMESH_SEED replays one seed, REMESH_SEEDS runs as many, from REMESH_FIRST_SEED on.
#include "tests/simulation/server/simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace remesh::server {
namespace {

uint64_t Environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

struct Totals {
  std::map<v1::Execution::Phase, int> outcomes;
  int without_lost = 0;  // executions without lost hosts that succeeded, of those known at the end
  int stayed = 0, gave_up_absent = 0;
  std::map<Fault, int> injected;
  int found_out = 0;
  std::map<std::string, int> operated;
  int flips_refused = 0;
  int flips_harmless = 0;
  int reused_communicators = 0;
  std::map<v1::State::Phase, int> seen;
  int writes_committed = 0;
  int deletions_waited = 0;
  int absent_named = 0;
};

Simulation::Options OptionsOf(uint64_t seed) {
  Faults::Options faults{.scale = 0.5 * static_cast<double>(seed % 5)};
  if (seed % 3 != 0) faults.without.insert(Fault::kMachineDeath);
  if (seed % 4 != 0) faults.without.insert(Fault::kJournalRollback);
  if (seed % 7 >= 2) faults.without.insert(Fault::kBitFlip);
  return {.seed = seed,
          .faults = std::move(faults),
          .operates = seed % 9 < 6,
          .assigned_ids = seed % 2 == 1,
          .copies = seed / 5 % 2 == 0};
}

void RunSeed(uint64_t seed, Totals& totals) {
  // Machines that die for good, and journals that go back, leave more undone: see CheckSettled().
  Simulation simulation(OptionsOf(seed));
  simulation.Run(60);
  simulation.SettleAndCheck();
  for (const std::string& violation : simulation.violations()) ADD_FAILURE() << violation;
  for (const auto& [phase, count] : simulation.outcomes()) totals.outcomes[phase] += count;
  totals.without_lost += simulation.succeeded_without_lost();
  totals.stayed += simulation.stayed();
  totals.gave_up_absent += simulation.gave_up_absent();
  for (const auto& [fault, count] : simulation.injected()) totals.injected[fault] += count;
  totals.found_out += simulation.found_out();
  for (const auto& [phase, count] : simulation.seen()) totals.seen[phase] += count;
  for (const auto& [call, count] : simulation.operated()) totals.operated[call] += count;
  totals.flips_refused += simulation.flips_refused();
  totals.flips_harmless += simulation.flips_harmless();
  totals.reused_communicators += simulation.reused_communicators();
  totals.writes_committed += simulation.writes_committed();
  totals.deletions_waited += simulation.deletions_waited();
  totals.absent_named += simulation.absent_named();
}

TEST(SimulationTest, NothingIsLostOrHalfCommittedInAnyInterleaving) {
  const uint64_t only = Environment("REMESH_SEED", 0);
  const uint64_t seeds = Environment("REMESH_SEEDS", 500);
  const uint64_t first = only ? only : Environment("REMESH_FIRST_SEED", 1);
  Totals totals;
  for (uint64_t seed = first; seed < first + (only ? 1 : seeds); ++seed) {
    RunSeed(seed, totals);
    if (HasFailure()) FAIL() << "replay with REMESH_SEED=" << seed;
  }
  for (const FaultRow& row : kFaults) {
    std::cout << row.name << ": " << totals.injected[row.fault] << "\n";
    RecordProperty(row.name, totals.injected[row.fault]);
  }
  if (only != 0) return;
  RecordProperty("deletions_waited", totals.deletions_waited);
  RecordProperty("absent_named", totals.absent_named);
  // The world must have been one in which things happen.
  EXPECT_GT(totals.deletions_waited, static_cast<int>(seeds) / 4);
  EXPECT_GT(totals.absent_named, static_cast<int>(seeds) / 50);
  EXPECT_GT(totals.outcomes[v1::Execution::SUCCEEDED], static_cast<int>(seeds));
  EXPECT_GT(totals.reused_communicators, static_cast<int>(seeds) / 4);
  EXPECT_GT(totals.writes_committed, static_cast<int>(seeds));
  RecordProperty("writes_committed", totals.writes_committed);
  EXPECT_GT(totals.outcomes[v1::Execution::FAILED], static_cast<int>(seeds) / 10);
  EXPECT_GT(totals.outcomes[v1::Execution::CANCELLED], 0);
  EXPECT_GT(totals.without_lost, static_cast<int>(seeds) / 10);
  EXPECT_GT(totals.stayed, static_cast<int>(seeds));
  EXPECT_GT(totals.gave_up_absent, static_cast<int>(seeds) / 10);
  EXPECT_GT(totals.seen[v1::State::READY], static_cast<int>(seeds));
  EXPECT_GT(totals.seen[v1::State::BUILDING], static_cast<int>(seeds) / 2);
  EXPECT_GT(totals.seen[v1::State::DEGRADED], static_cast<int>(seeds) / 10);
  for (const FaultRow& row : kFaults)
    EXPECT_GT(totals.injected[row.fault], static_cast<int>(seeds) / 20) << row.name;
  EXPECT_GT(totals.found_out, static_cast<int>(seeds) / 200);
  for (const char* call : {"ResolveExecutionRequest", "DiscardShardsRequest", "ResetWorkerRequest",
                           "ForgetWorkerRequest", "DrainWorkerRequest", "UndrainWorkerRequest",
                           "UpdateStateRequest"}) {
    EXPECT_GT(totals.operated[call], static_cast<int>(seeds) / 250) << call;
    RecordProperty(call, totals.operated[call]);
  }
  // Most bits are refused; those in PATH.head, and in pages of older times, change nothing.
  EXPECT_GT(totals.flips_refused, static_cast<int>(seeds) / 20);
  EXPECT_GT(totals.flips_harmless, 0);
  RecordProperty("flips_refused", totals.flips_refused);
  RecordProperty("flips_harmless", totals.flips_harmless);
  for (const auto& [phase, count] : totals.seen)
    RecordProperty("STATE_" + v1::State::Phase_Name(phase), count);
  for (const auto& [phase, count] : totals.outcomes)
    RecordProperty(v1::Execution::Phase_Name(phase), count);
}

// Nothing is decided by DEGRADED: a server that takes each such state for LOST commands the same.
TEST(SimulationTest, DegradedStatesAreTreatedAsLostOnes) {
  int degraded = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Simulation::Options options = OptionsOf(seed);
    options.faults.without.insert(
        Fault::kBitFlip);  // where that leads is chosen by more than the seed
    Simulation with(options);
    options.layouts = false;
    Simulation without(options);
    for (Simulation* simulation : {&with, &without}) {
      simulation->Run(60);
      simulation->SettleAndCheck();
    }
    const auto seen = with.seen().find(v1::State::DEGRADED);
    if (seen != with.seen().end()) degraded += seen->second;
    EXPECT_EQ(without.seen().count(v1::State::DEGRADED), 0u);
    EXPECT_EQ(with.commands(), without.commands()) << "seed " << seed;
  }
  EXPECT_GT(degraded, 10);
}

std::string NameOf(Simulation::Planted planted) {
  switch (planted) {
    case Simulation::Planted::kWritesIgnored:
      return "WritesIgnoredOnOneHost";
    case Simulation::Planted::kDegradedIgnoresWrites:
      return "DegradedIgnoresWrites";
    case Simulation::Planted::kDiscardUnchecked:
      return "DiscardUnchecked";
    case Simulation::Planted::kCommitNotJournaled:
      return "CommitNotJournaled";
    case Simulation::Planted::kOnlyMovesMustExist:
      return "OnlyMovesMustExist";
    case Simulation::Planted::kDeletionNotWaited:
      return "DeletionNotWaited";
    case Simulation::Planted::kNothing:
      break;
  }
  return "Nothing";
}

// The laws find what they are for.
class PlantedTest : public testing::TestWithParam<Simulation::Planted> {};

TEST_P(PlantedTest, AFaultIsFoundByASeed) {
  constexpr uint64_t kMost = 500;
  for (uint64_t seed = 1; seed <= kMost; ++seed) {
    Simulation::Options options = OptionsOf(seed);
    options.faults.without.insert(Fault::kBitFlip);
    options.planted = GetParam();
    Simulation simulation(options);
    simulation.Run(60);
    if (simulation.violations().empty()) continue;
    std::cout << "found by seed " << seed << ": " << simulation.violations()[0] << "\n";
    options.planted = Simulation::Planted::kNothing;
    Simulation sound(options);
    sound.Run(60);
    for (const std::string& violation : sound.violations()) ADD_FAILURE() << violation;
    return;
  }
  FAIL() << "no seed up to " << kMost << " finds it";
}
INSTANTIATE_TEST_SUITE_P(Faults, PlantedTest,
                         testing::Values(Simulation::Planted::kWritesIgnored,
                                         Simulation::Planted::kDegradedIgnoresWrites,
                                         Simulation::Planted::kDiscardUnchecked,
                                         Simulation::Planted::kCommitNotJournaled,
                                         Simulation::Planted::kOnlyMovesMustExist,
                                         Simulation::Planted::kDeletionNotWaited),
                         [](const auto& planted) { return NameOf(planted.param); });

}  // namespace
}  // namespace remesh::server
