// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "planner/values/box.h"

namespace remesh::worker {

// An index of boxes of one rank by where they begin. It finds the boxes that intersect a given box
// without looking at all of them. Boxes may be added between queries. A query uses the dimension in
// which the fewest boxes begin near the given box. It costs about rank times as many steps as there
// are such boxes, which is little if the boxes hardly overlap and have similar sizes.
class BoxIndex {
 public:
  void Add(const planner::Box& box) { boxes_.push_back(box); }

  // The boxes that share an element with `box`, by their number in order of addition.
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
