// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/box_index.h"

#include <algorithm>
#include <numeric>

namespace remesh::worker {

using planner::Box;

namespace {

// Up to this many boxes are compared one by one, which is cheaper than an index.
constexpr size_t kFew = 16;

}  // namespace

void BoxIndex::Index() {
  for (; indexed_ < boxes_.size(); ++indexed_) {
    const Box& box = boxes_[indexed_];
    dimensions_.resize(static_cast<size_t>(box.rank()));
    for (size_t d = 0; d < dimensions_.size(); ++d) {
      ByBegin& by_begin = dimensions_[d].by_begin;
      // Boxes mostly come in order.
      by_begin.emplace_hint(by_begin.end(), box.dims[d].lo, static_cast<int>(indexed_));
      dimensions_[d].size_max = std::max(dimensions_[d].size_max, box.dims[d].size());
    }
  }
}

// Walks through the boxes that begin near enough, in all dimensions side by side, until one
// dimension has no more. The boxes of that dimension are the candidates.
std::vector<int> BoxIndex::Candidates(const Box& box) const {
  struct Range {
    ByBegin::const_iterator begin, at, end;
  };
  std::vector<Range> ranges;
  for (size_t d = 0; d < dimensions_.size(); ++d) {
    const ByBegin& by_begin = dimensions_[d].by_begin;
    const auto begin = by_begin.upper_bound(box.dims[d].lo - dimensions_[d].size_max);
    ranges.push_back({begin, begin, by_begin.lower_bound(box.dims[d].hi)});
  }
  while (true) {
    for (Range& range : ranges) {
      if (range.at != range.end) {
        ++range.at;
        continue;
      }
      std::vector<int> found;
      for (auto it = range.begin; it != range.end; ++it) found.push_back(it->second);
      return found;
    }
  }
}

std::vector<int> BoxIndex::Meeting(const Box& box) {
  std::vector<int> found;
  if (boxes_.size() <= kFew || box.rank() == 0) {
    found.resize(boxes_.size());
    std::iota(found.begin(), found.end(), 0);
  } else {
    Index();
    found = Candidates(box);
    std::sort(found.begin(), found.end());
  }
  const auto apart = [&](int i) { return !planner::Intersect(boxes_[i], box).has_value(); };
  found.erase(std::remove_if(found.begin(), found.end(), apart), found.end());
  return found;
}

}  // namespace remesh::worker
