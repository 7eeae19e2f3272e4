// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/direct_dealing.h"

#include <gtest/gtest.h>

#include <random>

#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

constexpr int32_t kHosts = 6;

// Up to 12 classes over six hosts.
DemandClasses RandomDemand(std::mt19937_64& random) {
  DemandClasses demand;
  for (int64_t a = 1 + static_cast<int64_t>(random() % 12); a > 0; --a) {
    Group holders, needers;
    for (int32_t host = 0; host < kHosts; ++host) {
      if (random() % 3 == 0) (random() % 2 == 0 ? holders : needers).push_back(host);
    }
    if (holders.empty() || needers.empty()) continue;
    demand.classes.push_back(
        testing::MakeClass(holders, needers, 1 + static_cast<int64_t>(random() % 100)));
  }
  return demand;
}

// The problem of routing.h.
TransportationProblem ProblemOf(const DemandClasses& demand, const std::vector<bool>& even) {
  TransportationProblem problem{.items = {}, .capacity = std::vector<int64_t>(kHosts, 1)};
  for (size_t a = 0; a < demand.classes.size(); ++a) {
    const DemandClass& one = demand.classes[a];
    Group all = one.holders;
    all.insert(all.end(), one.needers.begin(), one.needers.end());
    problem.items.push_back({.demand = one.bits, .bins = one.holders, .even = even[a]});
    problem.items.push_back({.demand = one.bits * (static_cast<int64_t>(one.needers.size()) - 1),
                             .bins = std::move(all),
                             .priority = 1,
                             .even = even[a],
                             .preferred = static_cast<int32_t>(one.holders.size())});
  }
  return problem;
}

TEST(DirectDealingTest, ItAnswersAsTheSearchDoes) {
  std::mt19937_64 random(5);
  int answered = 0;
  for (int round = 0; round < 5000; ++round) {
    const DemandClasses demand = RandomDemand(random);
    std::vector<bool> even;
    for (size_t a = 0; a < demand.classes.size(); ++a) even.push_back(random() % 2 == 0);
    const Rational t{100 + static_cast<int64_t>(random() % 400), 1};
    const auto sent = DealDirectly(demand, even, std::vector<int64_t>(kHosts, t.num));
    if (!sent.has_value()) continue;
    ++answered;
    const TransportationSolution solution = SolveTransportation(ProblemOf(demand, even), t);
    ASSERT_EQ(solution.t, t);
    for (size_t a = 0; a < demand.classes.size(); ++a) {
      Served sum = solution.flow[2 * a + 1];
      for (size_t k = 0; k < solution.flow[2 * a].size(); ++k) sum[k] += solution.flow[2 * a][k];
      ASSERT_EQ((*sent)[a], sum) << "round " << round << " class " << a;
    }
  }
  EXPECT_GT(answered, 1000);
}

}  // namespace
}  // namespace remesh::planner
