// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace remesh {
namespace {

TransportProblem RandomProblem(std::mt19937_64& random) {
  TransportProblem problem;
  const int bins = 1 + static_cast<int>(random() % 6);
  for (int j = 0; j < bins; ++j) problem.capacity.push_back(1 + static_cast<int64_t>(random() % 9));
  const int items = 1 + static_cast<int>(random() % 8);
  for (int i = 0; i < items; ++i) {
    TransportProblem::Item item{.demand = static_cast<int64_t>(random() % 1000),
                                .bins = {},
                                .priority = static_cast<int32_t>(random() % 2),
                                .even = random() % 4 == 0};
    for (int j = 0; j < bins; ++j) {
      if (random() % 2 == 0) item.bins.push_back(j);
    }
    if (item.bins.empty()) item.bins.push_back(static_cast<int32_t>(random() % bins));
    problem.items.push_back(std::move(item));
  }
  return problem;
}

// Everything is served, no bin beyond its room.
void ExpectServed(const TransportProblem& problem, const TransportSolution& solution) {
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
}

// The tight items can go nowhere but into the tight bins, and fill them in time t.
void ExpectProved(const TransportProblem& problem, const TransportSolution& solution) {
  if (solution.t.num == 0) return;
  const std::set<int32_t> bins(solution.tight_bins.begin(), solution.tight_bins.end());
  int64_t demand = 0;
  for (int32_t i : solution.tight_items) {
    demand += problem.items[i].demand;
    for (int32_t j : problem.items[i].bins) EXPECT_TRUE(bins.contains(j));
  }
  int64_t capacity = 0;
  for (int32_t j : bins) capacity += problem.capacity[j];
  EXPECT_TRUE((Rational{demand, capacity} == solution.t));
}

TEST(TransportTest, TheLeastTimeIsReachedAndProved) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const TransportProblem problem = RandomProblem(random);
    const TransportSolution solution = SolveTransport(problem, {});
    ExpectServed(problem, solution);
    ExpectProved(problem, solution);
  }
}

TEST(TransportTest, FewItemsAreSplit) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 500; ++round) {
    TransportProblem problem = RandomProblem(random);
    for (auto& item : problem.items) item.even = false;
    const TransportSolution solution = SolveTransport(problem, {});
    size_t positive = 0;
    for (const auto& flows : solution.flow) {
      positive += static_cast<size_t>(
          std::count_if(flows.begin(), flows.end(), [](int64_t f) { return f > 0; }));
    }
    // A forest over items and bins.
    EXPECT_LT(positive, problem.items.size() + problem.capacity.size());
  }
}

TEST(TransportTest, TheLowerPriorityWaits) {
  TransportProblem problem;
  problem.capacity = {1};
  problem.items = {{.demand = 6, .bins = {0}, .priority = 1}, {.demand = 8, .bins = {0}}};
  const auto flow = FillTransport(problem, {10, 1});
  EXPECT_EQ(flow[1][0], 8);
  EXPECT_EQ(flow[0][0], 2);
}

}  // namespace
}  // namespace remesh
