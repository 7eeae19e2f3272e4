// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "planner/atoms/demand_classes.h"

namespace remesh::planner {

struct RouteEdge {
  int32_t from_host = 0;
  int32_t to_host = 0;
};

using RouteEdges = absl::InlinedVector<RouteEdge, 2>;

// The bits [begin, end) of a class's 0..b take these edges. Every needer is entered exactly once,
// by a host that holds the class or was entered earlier in the list.
struct RouteSegment {
  int64_t begin = 0;
  int64_t end = 0;
  RouteEdges edges;
};

using Route = absl::InlinedVector<RouteSegment, 1>;  // adjoining, from 0 to b

// Says which host serves how many copies at each position of a class. With b bits, host k sends
// floor(sent[k] / b) whole copies and a fraction. The fractions, laid end to end and wrapped around
// [0, b), say which hosts serve one copy more at a position. At each position the degrees are whole
// numbers, and their sum is the same everywhere when the sum of `sent` is a multiple of b.
//
// Relays (hosts from `relays_from` on) that each pass on one copy form a chain. With fan_out f they
// serve f copies at a time over a range 1 / f as long instead. This gives f-ary trees, in which
// each relay is an inner node of some and a leaf of the others, and every host sends as much as
// before (up to f - 1 bits). The amount that is needed to fill turns of the wheel evenly is served
// one by one.
class DegreeWheel {
 public:
  DegreeWheel(int64_t bits, absl::Span<const int64_t> sent, size_t relays_from = 0,
              int64_t fan_out = 1);

  // Positions at which degrees change: 0, ... , b, rising.
  const std::vector<int64_t>& cuts() const { return cuts_; }
  std::vector<int64_t> DegreesAt(int64_t position) const;

 private:
  struct Arc {  // [lo, hi), wrapped around [0, bits)
    size_t index;
    int64_t lo;
    int64_t hi;
    int64_t copies;
  };
  void AddArc(size_t index, int64_t lo, int64_t length, int64_t copies);

  int64_t bits_;
  std::vector<int64_t> whole_;
  std::vector<Arc> arcs_;
  std::vector<int64_t> cuts_;
};

// Appends the edges of a tree in which holders[k] has degrees[k] children and needers[k] has
// degrees[holders.size() + k]. Goes breadth first, needers of high degree first, to keep the tree
// shallow. REQUIRES: the degrees sum to the number of needers; if there is a needer, some holder
// has a positive degree.
void AppendTree(absl::Span<const int32_t> holders, absl::Span<const int32_t> needers,
                absl::Span<const int64_t> degrees, RouteEdges& edges);

// Trees up to this depth are not changed.
inline constexpr int kDepthWanted = 4;
// How many copies the relays of deeper trees serve at a time: binary trees instead of chains.
inline constexpr int64_t kRelayFanOut = 2;

// The largest number of edges in a row.
int DepthOf(const Route& route);

// Trees in which host k of (holders, then needers) sends sent[k] bits. Has about one segment more
// than hosts with a fraction; twice that where binary trees replace long chains. REQUIRES: the sum
// of sent is b * |needers|, and that of the holders is at least b.
Route MakeTrees(const DemandClass& demand, absl::Span<const int64_t> sent,
                Budget& budget = Budget::Unlimited());

}  // namespace remesh::planner
