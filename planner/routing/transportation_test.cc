// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/transportation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace remesh::planner {
namespace {

TransportationProblem RandomProblem(std::mt19937_64& random) {
  TransportationProblem problem;
  const int bins = 1 + static_cast<int>(random() % 6);
  for (int j = 0; j < bins; ++j) problem.capacity.push_back(1 + static_cast<int64_t>(random() % 9));
  const int items = 1 + static_cast<int>(random() % 8);
  for (int i = 0; i < items; ++i) {
    TransportationProblem::Item item{.demand = static_cast<int64_t>(random() % 1000),
                                     .bins = {},
                                     .priority = static_cast<int16_t>(random() % 2),
                                     .even = random() % 4 == 0};
    for (int j = 0; j < bins; ++j) {
      if (random() % 2 == 0) item.bins.push_back(j);
    }
    if (item.bins.empty()) item.bins.push_back(static_cast<int32_t>(random() % bins));
    problem.items.push_back(std::move(item));
  }
  return problem;
}

// Puts the bins of a problem into a random forest of groups.
void AddGroups(std::mt19937_64& random, TransportationProblem& problem) {
  const int groups = static_cast<int>(random() % 5);
  for (int g = 0; g < groups; ++g) {
    problem.groups.push_back({.capacity = 1 + static_cast<int64_t>(random() % 9),
                              .inside = static_cast<int64_t>(random() % 3 * (random() % 500)),
                              .parent = static_cast<int32_t>(random() % (g + 1)) - 1});
  }
  for (size_t j = 0; j < problem.capacity.size(); ++j) {
    problem.group_of.push_back(static_cast<int32_t>(random() % (groups + 1)) - 1);
  }
}

// Whether bin j lies below group g.
bool LiesIn(const TransportationProblem& problem, int32_t bin, int32_t group) {
  if (problem.groups.empty()) return false;
  int32_t at = problem.group_of[bin];
  while (at >= 0 && at != group) at = problem.groups[at].parent;
  return at == group;
}

// Expects that everything is served, and that no bin or group serves more than it has room for.
void ExpectServed(const TransportationProblem& problem, const TransportationSolution& solution) {
  std::vector<int64_t> load(problem.capacity.size(), 0);
  for (size_t i = 0; i < problem.items.size(); ++i) {
    int64_t served = 0;
    for (size_t k = 0; k < problem.items[i].bins.size(); ++k) {
      EXPECT_GE(solution.flow[i][k], 0);
      served += solution.flow[i][k];
      load[problem.items[i].bins[k]] += solution.flow[i][k];
    }
    EXPECT_EQ(served, problem.items[i].demand);
  }
  for (size_t j = 0; j < load.size(); ++j) {
    EXPECT_LE(load[j], solution.t.CeilTimes(problem.capacity[j]));
  }
  for (size_t g = 0; g < problem.groups.size(); ++g) {
    int64_t served = 0;
    for (size_t j = 0; j < load.size(); ++j) {
      const int32_t bin = static_cast<int32_t>(j);
      if (LiesIn(problem, bin, static_cast<int32_t>(g))) served += load[j];
    }
    const TransportationProblem::Group& group = problem.groups[g];
    EXPECT_LE(served, solution.t.CeilTimes(group.capacity) + group.inside);
  }
}

// Expects that the tight items fit only into the tight bins and groups, and fill them in time t.
void ExpectProved(const TransportationProblem& problem, const TransportationSolution& solution) {
  if (solution.t.num == 0) return;
  const std::set<int32_t> bins(solution.tight_bins.begin(), solution.tight_bins.end());
  int64_t demand = 0;
  for (int32_t i : solution.tight_items) {
    demand += problem.items[i].demand;
    for (int32_t j : problem.items[i].bins) {
      int times = bins.contains(j) ? 1 : 0;
      for (int32_t g : solution.tight_groups) times += LiesIn(problem, j, g) ? 1 : 0;
      EXPECT_EQ(times, 1);
    }
  }
  int64_t capacity = 0;
  for (int32_t j : bins) capacity += problem.capacity[j];
  for (int32_t g : solution.tight_groups) {
    capacity += problem.groups[g].capacity;
    demand -= problem.groups[g].inside;
  }
  EXPECT_TRUE((Rational{demand, capacity} == solution.t));
}

TEST(TransportationTest, TheLeastTimeIsReachedAndProved) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const TransportationProblem problem = RandomProblem(random);
    const TransportationSolution solution = SolveTransportation(problem, {});
    ExpectServed(problem, solution);
    ExpectProved(problem, solution);
  }
}

TEST(TransportationTest, TheLeastTimeIsReachedAndProvedInGroups) {
  std::mt19937_64 random(9);
  int by_groups = 0;
  for (int round = 0; round < 5000; ++round) {
    TransportationProblem problem = RandomProblem(random);
    AddGroups(random, problem);
    const TransportationSolution solution = SolveTransportation(problem, {});
    ExpectServed(problem, solution);
    ExpectProved(problem, solution);
    by_groups += solution.tight_groups.empty() ? 0 : 1;
  }
  EXPECT_GT(by_groups, 1000);
}

TEST(TransportationTest, FewItemsAreSplit) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 500; ++round) {
    TransportationProblem problem = RandomProblem(random);
    for (auto& item : problem.items) item.even = false;
    const TransportationSolution solution = SolveTransportation(problem, {});
    size_t positive = 0;
    for (const auto& flows : solution.flow) {
      positive += static_cast<size_t>(
          std::count_if(flows.begin(), flows.end(), [](int64_t f) { return f > 0; }));
    }
    // A forest over items and bins.
    EXPECT_LT(positive, problem.items.size() + problem.capacity.size());
  }
}

TEST(TransportationTest, TheLowerPriorityWaits) {
  TransportationProblem problem;
  problem.capacity = {1};
  problem.items = {{.demand = 6, .bins = {0}, .priority = 1}, {.demand = 8, .bins = {0}}};
  const auto flow = FillTransportation(problem, {10, 1});
  EXPECT_EQ(flow[1][0], 8);
  EXPECT_EQ(flow[0][0], 2);
}

TEST(TransportationTest, ARoomBeyondAnyDemandIsNoRoomTooLittle) {
  // The time that the slow bin takes would let the fast one serve 2^97 bits.
  TransportationProblem problem;
  problem.items.push_back({.demand = int64_t{1} << 33, .bins = {0}});
  problem.items.push_back({.demand = int64_t{1} << 33, .bins = {1}});
  problem.capacity = {1, int64_t{1} << 62};
  const TransportationSolution solution = SolveTransportation(problem, {0, 1});
  EXPECT_EQ(solution.t, (Rational{int64_t{1} << 33, 1}));
  EXPECT_EQ(solution.flow[1][0], int64_t{1} << 33);
}

}  // namespace
}  // namespace remesh::planner
