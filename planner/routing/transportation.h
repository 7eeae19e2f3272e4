// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "planner/values/budget.h"
#include "planner/values/rational.h"

namespace remesh::planner {

// The transportation problem: the bins of a set B_i serve the demand d_i >= 0 of item i, split at
// will; bin j serves at most t * C_j in all. All numbers are integers (bin j has room for ceil(t *
// C_j)), so that the answer is the same on any machine. Bins may lie in groups, and groups in
// groups: all bins below group g together serve at most t * C_g + inside_g.
struct TransportationProblem {
  using Bins = absl::InlinedVector<int32_t, 4>;
  struct Item {
    int64_t demand = 0;
    Bins bins;  // B_i, not empty
    // Items of lower priority number get room first.
    int16_t priority = 0;
    // Spreads the demand evenly over the (preferred) bins first, as far as they have room: for
    // items of which each bin serves some part better than others. Such items keep their many bins;
    // all others are split as little as possible.
    bool even = false;
    int32_t preferred = 0;  // bins [0, preferred) of the list are tried before the others
  };
  struct Group {
    int64_t capacity = 1;  // C_g > 0
    int64_t inside = 0;    // what the group serves without using capacity
    int32_t parent = -1;   // a group, -1: none
  };
  std::vector<Item> items;
  std::vector<int64_t> capacity;  // C_j > 0
  std::vector<Group> groups;
  std::vector<int32_t> group_of;  // bin -> group, -1: none; empty where there are no groups
};

// Amounts by index: [k] is served by the k-th of a list.
using Served = absl::InlinedVector<int64_t, 4>;

struct TransportationSolution {
  Rational t;
  // flow[i][k] is what bin bins[k] of item i serves. The pairs with positive flow form a forest, so
  // few items are split.
  std::vector<Served> flow;
  // Proof of t, when t is above the lower limit: the bins of `tight_items` are all among
  // `tight_bins` or below `tight_groups`, none of which lies below another, and the sum of d_i over
  // tight_items = t * (sum of C over tight_bins and tight_groups) + sum of inside_g over
  // tight_groups. Empty otherwise.
  std::vector<int32_t> tight_items;
  std::vector<int32_t> tight_bins;
  std::vector<int32_t> tight_groups;
};

// Smallest t >= at_least at which everything is served. Newton's method: computes the maximum flow
// at t; where it falls short, the items X that cannot be served and the full bins and groups N(X)
// that stop them give the next t = (d(X) - inside(N(X))) / C(N(X)). t rises strictly, a few times
// at most. Once the budget is spent the flow is too little, and nothing is tight.
TransportationSolution SolveTransportation(const TransportationProblem& problem,
                                           const Rational& at_least,
                                           Budget& budget = Budget::Unlimited());

// The same without the flow, which takes time and memory where there are millions of items.
TransportationSolution BoundTransportation(const TransportationProblem& problem,
                                           const Rational& at_least,
                                           Budget& budget = Budget::Unlimited());

// The largest flow at t, by priority; less than the demands where t is too small.
std::vector<Served> FillTransportation(const TransportationProblem& problem, const Rational& t,
                                       Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
