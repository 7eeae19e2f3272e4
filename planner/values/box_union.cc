// SPDX-License-Identifier: Apache-2.0
#include "planner/values/box_union.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace remesh::planner {
namespace {

using Indices = std::vector<size_t>;

// Indices of the boxes, by their begin in dimension d.
Indices OrderAlong(absl::Span<const Box> boxes, int d) {
  Indices order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(boxes[a].dims[d].lo, a) < std::pair(boxes[b].dims[d].lo, b);
  });
  return order;
}

// The number of pairs of boxes whose projections on dimension d overlap: what a sweep along d has
// to compare.
int64_t MeetingPairs(absl::Span<const Box> boxes, int d, const Indices& order) {
  std::vector<int64_t> ends;
  ends.reserve(boxes.size());
  for (const Box& box : boxes) ends.push_back(box.dims[d].hi);
  std::sort(ends.begin(), ends.end());
  int64_t pairs = 0;
  size_t ended = 0;
  for (size_t begun = 0; begun < order.size(); ++begun) {
    while (ended < ends.size() && ends[ended] <= boxes[order[begun]].dims[d].lo) ++ended;
    pairs += static_cast<int64_t>(begun - ended);
  }
  return pairs;
}

std::optional<std::pair<size_t, size_t>> Sweep(absl::Span<const Box> boxes, int d,
                                               const Indices& order, Budget& budget) {
  constexpr size_t kComparedPerAsk = 256;
  Indices active;
  for (size_t i : order) {
    const int64_t lo = boxes[i].dims[d].lo;
    std::erase_if(active, [&](size_t j) { return boxes[j].dims[d].hi <= lo; });
    for (size_t k = 0; k < active.size(); ++k) {
      if (k % kComparedPerAsk == 0 && budget.Spent()) return std::nullopt;
      if (Intersect(boxes[i], boxes[active[k]])) return std::minmax(i, active[k]);
    }
    active.push_back(i);
  }
  return std::nullopt;
}

// Decomposes unions dimension by dimension, until `budget` boxes are used up.
class Decomposer {
 public:
  Decomposer(absl::Span<const Box> boxes, size_t budget) : boxes_(boxes), budget_(budget) {}

  // The decomposition, in dimensions [d, rank), of the boxes `members`; nullopt when it exceeds the
  // budget.
  std::optional<std::vector<Box>> Run(const Indices& members, int d) {
    if (d == boxes_[members[0]].rank()) return std::vector<Box>(1);
    std::vector<Slab> slabs;
    for (const Interval& slice : Slices(members, d)) {
      const Indices crossing = Crossing(members, d, slice);
      if (crossing.empty()) continue;
      auto section = Run(crossing, d + 1);
      if (!section || !Append(slabs, slice, *std::move(section))) return std::nullopt;
    }
    return Flatten(slabs);
  }

 private:
  struct Slab {
    Interval extent;
    std::vector<Box> section;  // in the dimensions that follow
  };

  // The intervals between neighbouring boundaries of the boxes in dimension d.
  std::vector<Interval> Slices(const Indices& members, int d) const {
    std::vector<int64_t> cuts;
    for (size_t i : members) {
      cuts.push_back(boxes_[i].dims[d].lo);
      cuts.push_back(boxes_[i].dims[d].hi);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Interval> slices;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) slices.push_back({cuts[i], cuts[i + 1]});
    return slices;
  }

  Indices Crossing(const Indices& members, int d, const Interval& slice) const {
    Indices crossing;
    for (size_t i : members) {
      if (boxes_[i].dims[d].lo <= slice.lo && boxes_[i].dims[d].hi >= slice.hi)
        crossing.push_back(i);
    }
    return crossing;
  }

  // Adds a slab, or widens the last one if it has the same section. False when over budget.
  bool Append(std::vector<Slab>& slabs, const Interval& slice, std::vector<Box> section) {
    if (!slabs.empty() && slabs.back().extent.hi == slice.lo && slabs.back().section == section) {
      slabs.back().extent.hi = slice.hi;
      return true;
    }
    used_ += section.size();
    slabs.push_back({slice, std::move(section)});
    return used_ <= budget_;
  }

  static std::vector<Box> Flatten(const std::vector<Slab>& slabs) {
    std::vector<Box> boxes;
    for (const Slab& slab : slabs) {
      for (const Box& rest : slab.section) {
        Box box;
        box.dims.push_back(slab.extent);
        box.dims.insert(box.dims.end(), rest.dims.begin(), rest.dims.end());
        boxes.push_back(std::move(box));
      }
    }
    return boxes;
  }

  absl::Span<const Box> boxes_;
  size_t budget_;
  size_t used_ = 0;
};

}  // namespace

std::optional<std::pair<size_t, size_t>> FindOverlap(absl::Span<const Box> boxes,
                                                     Budget& budget) {
  if (boxes.size() < 2) return std::nullopt;
  if (boxes[0].rank() == 0) return std::pair<size_t, size_t>(0, 1);
  int best = 0;
  Indices best_order;
  int64_t least = INT64_MAX;
  for (int d = 0; d < boxes[0].rank() && least > 0; ++d) {
    Indices order = OrderAlong(boxes, d);
    const int64_t pairs = MeetingPairs(boxes, d, order);
    if (pairs >= least) continue;
    best = d;
    best_order = std::move(order);
    least = pairs;
  }
  if (least == 0) return std::nullopt;
  return Sweep(boxes, best, best_order, budget);
}

std::vector<Box> SlabDecomposition(std::vector<Box> boxes) {
  std::sort(boxes.begin(), boxes.end());
  if (boxes.size() < 2) return boxes;
  Indices all(boxes.size());
  std::iota(all.begin(), all.end(), size_t{0});
  // Each section counts once for every dimension above it.
  const size_t budget = (4 * boxes.size() + 64) * boxes[0].dims.size();
  auto slabs = Decomposer(boxes, budget).Run(all, 0);
  if (!slabs || slabs->size() > 4 * boxes.size() + 64) return boxes;
  return *std::move(slabs);
}

}  // namespace remesh::planner
