// SPDX-License-Identifier: Apache-2.0
// The laws of README.md in any interleaving of faults. REMESH_SEED replays one seed, REMESH_SEEDS runs
// as many, from REMESH_FIRST_SEED on.
#include "server/coordination/testing/worlds_simulation.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace remesh::server::coordination {
namespace {

uint64_t Environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST(WorldsSimulationTest, WorldsKeepTheirLawsInAnyInterleaving) {
  const uint64_t only = Environment("REMESH_SEED", 0);
  const uint64_t seeds = only != 0 ? 1 : Environment("REMESH_SEEDS", 1000);
  const uint64_t first = only != 0 ? only : Environment("REMESH_FIRST_SEED", 1);
  std::map<std::string, int64_t> counts;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    WorldsSimulation simulation(seed, {});
    simulation.Run();
    for (const auto& [what, count] : simulation.counts()) counts[what] += count;
    for (const std::string& violation : simulation.violations()) ADD_FAILURE() << violation;
    if (HasFailure()) break;
  }
  for (const auto& [what, count] : counts) {
    std::printf("%s: %lld\n", what.c_str(), static_cast<long long>(count));
  }
  if (only != 0) return;
  // Things must have happened.
  const int64_t few = static_cast<int64_t>(seeds) / 20;
  for (const char* what :
       {"results OK", "results BARRIER_TIMEOUT", "results MEMBER_LEFT", "results MEMBER_LOST",
        "results NAME_MISMATCH", "results VALUES_DIFFER", "results OVER", "steps OK",
        "server restarts", "disks that went back", "stops", "deaths", "leaves", "worlds",
        "connections that break", "writes that pass", "writes that are refused"}) {
    EXPECT_GT(counts[what], few) << what;
  }
}

// Whether one of the seeds shows it.
bool IsFound(const BrokenRules& broken, uint64_t seeds = 300) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    WorldsSimulation simulation(seed, broken);
    simulation.Run();
    if (simulation.violations().empty()) continue;
    std::printf("%s\n", simulation.violations().front().c_str());
    return true;
  }
  return false;
}

TEST(WorldsSimulationTest, FindsMembersThatComeBackWithOtherPayloadsWithoutDigests) {
  EXPECT_TRUE(IsFound({.other_payloads = true, .no_digests = true}));
}

TEST(WorldsSimulationTest, FindsMembersThatTellOnlyTheirLastRound) {
  EXPECT_TRUE(IsFound({.last_round_only = true}));
}

TEST(WorldsSimulationTest, FindsAServerThatDoesNotWaitForAllAfterItsRestart) {
  EXPECT_TRUE(IsFound({.waits_for_no_one = true}));
}

TEST(WorldsSimulationTest, FindsFormedThatIsSentBeforeTheEpochIsOnDisk) {
  EXPECT_TRUE(IsFound({.formed_before_disk = true}));
}

TEST(WorldsSimulationTest, FindsFencesThatRiseAfterTheWorldHasFormed) {
  EXPECT_TRUE(IsFound({.raises_late = true}));
}

TEST(WorldsSimulationTest, FindsAServerThatTakesNoMemberForLost) {
  EXPECT_TRUE(IsFound({.forgets_loss = true}));
}

TEST(WorldsSimulationTest, FindsEpochsThatGoOnFromADiskThatWentBack) {
  EXPECT_TRUE(IsFound({.no_leap = true}));
}

}  // namespace
}  // namespace remesh::server::coordination
