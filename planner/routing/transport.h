// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "planner/rational.h"

namespace remesh {

// The transportation problem: item i has demand d_i >= 0 to be served by the bins of a set B_i,
// split at will; bin j serves at most t * C_j in all. Everything is in integers (bin j's room is
// ceil(t * C_j)), so that the answer is the same on any machine.
struct TransportProblem {
  struct Item {
    int64_t demand = 0;
    std::vector<int32_t> bins;  // B_i, not empty
    // Items of a lower class get room first, and bins [0, preferred) of the list are tried before
    // the others.
    int32_t priority = 0;
    int32_t preferred = 0;
    // Deals the demand out evenly over the (preferred) bins first, as far as they have room: for
    // items whose bins are each better at a part of them. Such items keep their many bins; all
    // others are split as little as possible.
    bool even = false;
  };
  std::vector<Item> items;
  std::vector<int64_t> capacity;  // C_j > 0
};

struct TransportSolution {
  Rational t;
  // What bin bins[k] of item i serves: flow[i][k]. The pairs with a positive flow form a forest:
  // few items are split.
  std::vector<std::vector<int64_t>> flow;
  // What proves t, when t is above the lower limit: sum of d_i over `tight_items` = t * sum of C_j
  // over `tight_bins`, and the bins of these items are all among tight_bins. Empty otherwise.
  std::vector<int32_t> tight_items;
  std::vector<int32_t> tight_bins;
};

// Smallest t >= at_least that serves everything. Newton's method: maximum flow at t; where it
// fails, the items X that cannot be served and the bins N(X) they could use give the next t = d(X)
// / C(N(X)), and t rises strictly, a few times at most.
TransportSolution SolveTransport(const TransportProblem& problem, const Rational& at_least);

// Flow of the most that t lets through, by priority; less than the demands where t is too small.
std::vector<std::vector<int64_t>> FillTransport(const TransportProblem& problem, const Rational& t);

}  // namespace remesh
