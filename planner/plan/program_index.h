// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/plan/plan.h"

namespace remesh::planner {

// Where in a plan each host and each segment occurs, so that the programs of all hosts are made
// without a look at all moves for each of them. At most as large as the plan. Immutable.
class ProgramIndex {
 public:
  explicit ProgramIndex(const Plan& plan);

  // Numbers of the moves with an end on the host, rising.
  absl::Span<const int32_t> MovesOf(int32_t host) const { return moves_.Of(host); }
  // Numbers of the stripes (PlanRep::stripes) of the segment's moves, rising.
  absl::Span<const int32_t> StripesOf(int32_t segment) const { return stripes_.Of(segment); }

 private:
  // Lists of numbers, one after the other.
  struct Lists {
    std::vector<int32_t> begin;  // of list i; empty: no list has a number
    std::vector<int32_t> numbers;

    absl::Span<const int32_t> Of(int32_t list) const;
  };
  // The lists that `visit` makes: it calls add(list, number), the same each time, with rising numbers.
  template <typename Visit>
  static Lists MakeLists(size_t count, Visit visit);

  Lists moves_;
  Lists stripes_;
};

}  // namespace remesh::planner
