// SPDX-License-Identifier: Apache-2.0
// Law 4: no interleaving of crash, delay, loss and restart loses a generation or commits half of
// one. REMESH_SEED replays one seed, REMESH_SEEDS runs as many.
#include "tests/simulation/server/simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace remesh {
namespace {

uint64_t Environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// Returns how many executions without lost hosts succeeded, of those known at the end.
int RunSeed(uint64_t seed, double trouble, std::map<v1::Execution::Phase, int>& outcomes) {
  // With machines that die for good there is more that may stay undone, so less to check.
  Simulation simulation(
      {.seed = seed, .trouble = trouble, .failure = trouble, .buffers_lost = seed % 3 == 0});
  simulation.Run(60);
  simulation.SettleAndCheck();
  for (const std::string& violation : simulation.violations()) ADD_FAILURE() << violation;
  for (const auto& [phase, count] : simulation.outcomes()) outcomes[phase] += count;
  return simulation.succeeded_without_lost();
}

TEST(SimulationTest, NothingIsLostOrHalfCommittedInAnyInterleaving) {
  const uint64_t only = Environment("REMESH_SEED", 0);
  const uint64_t seeds = Environment("REMESH_SEEDS", 300);
  std::map<v1::Execution::Phase, int> outcomes;
  int without_lost = 0;
  for (uint64_t seed = only ? only : 1; seed <= (only ? only : seeds); ++seed) {
    without_lost += RunSeed(seed, 0.01 * static_cast<double>(seed % 5), outcomes);
    if (HasFailure()) FAIL() << "replay with REMESH_SEED=" << seed;
  }
  if (only != 0) return;
  // The world must have been one in which things happen.
  EXPECT_GT(outcomes[v1::Execution::SUCCEEDED], static_cast<int>(seeds));
  EXPECT_GT(outcomes[v1::Execution::FAILED], static_cast<int>(seeds) / 10);
  EXPECT_GT(outcomes[v1::Execution::CANCELLED], 0);
  EXPECT_GT(without_lost, static_cast<int>(seeds) / 10);
  for (const auto& [phase, count] : outcomes)
    RecordProperty(v1::Execution::Phase_Name(phase), count);
}

}  // namespace
}  // namespace remesh
