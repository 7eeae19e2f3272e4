// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "planner/values/box.h"

namespace remesh::worker {

// Boxes of one rank by where they begin, so that those which meet another box are found without a
// look at all of them. Boxes may be added between queries. Of the dimensions, a query goes by the
// one in which fewest boxes begin near enough; it costs about rank times as many steps as these
// are, which is little where the boxes hardly overlap and are alike in size.
class BoxIndex {
 public:
  void Add(const planner::Box& box) { boxes_.push_back(box); }

  // The boxes that have an element in common with `box`, by their number in order of addition.
  std::vector<int> Meeting(const planner::Box& box);

 private:
  using ByBegin = std::multimap<int64_t, int>;
  struct Dimension {
    ByBegin by_begin;
    int64_t size_max = 0;
  };

  void Index();
  std::vector<int> Candidates(const planner::Box& box) const;

  std::vector<planner::Box> boxes_;
  std::vector<Dimension> dimensions_;  // of the first indexed_ boxes
  size_t indexed_ = 0;
};

}  // namespace remesh::worker
