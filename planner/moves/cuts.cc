// SPDX-License-Identifier: Apache-2.0
#include "planner/moves/cuts.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "planner/values/rational.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

// How far the tapes of a class have been cut.
struct Progress {
  int64_t bits = 0;                          // of the tapes so far
  absl::InlinedVector<int64_t, 2> cut_bits;  // of these, the bits before each cut of the route
};

class TapeCutter {
 public:
  TapeCutter(const Atoms& atoms, const DemandClasses& demand, const std::vector<Route>& routes,
             Budget& budget)
      : atoms_(atoms),
        demand_(demand),
        routes_(routes),
        budget_(budget),
        progress_(routes.size()) {}

  RoutedSegments Run() {
    const size_t most = SegmentsMost();
    Reserve(routed_.segments, most);
    Reserve(routed_.edges, most);
    for (size_t s = 0; s < atoms_.tapes.size() && !budget_.Spent(); ++s) {
      const int32_t index = static_cast<int32_t>(s);
      if (demand_.class_of[s] < 0) {
        Add(index, 0, atoms_.tapes[s].bits, nullptr);
      } else {
        Cut(index, demand_.class_of[s]);
      }
    }
    return std::move(routed_);
  }

 private:
  size_t SegmentsMost() const {
    size_t most = 0;
    for (size_t s = 0; s < atoms_.tapes.size() && !budget_.Spent(); ++s) {
      most += demand_.class_of[s] < 0 ? 1 : routes_[demand_.class_of[s]].size();
    }
    return most;
  }

  void Add(int32_t tape, int64_t lo, int64_t hi, const RouteEdges* edges) {
    if (lo == hi) return;
    routed_.segments.push_back({tape, lo, hi});
    routed_.edges.push_back(edges);
  }

  void Cut(int32_t index, int32_t class_index) {
    const Tape& tape = atoms_.tapes[index];
    const Route& route = routes_[class_index];
    Progress& progress = progress_[class_index];
    progress.cut_bits.resize(route.size(), 0);
    progress.bits += tape.bits;
    int64_t lo = 0;
    for (size_t c = 0; c < route.size(); ++c) {
      int64_t hi = tape.bits;
      if (c + 1 < route.size()) {
        const int64_t wanted =
            MulDiv(route[c].end, progress.bits, route.back().end) - progress.cut_bits[c];
        const int64_t unit = tape.unit_bits;
        hi = std::clamp((wanted + unit / 2) / unit * unit, lo, tape.bits);
        progress.cut_bits[c] += hi;
      }
      Add(index, lo, hi, &route[c].edges);
      lo = hi;
    }
  }

  const Atoms& atoms_;
  const DemandClasses& demand_;
  const std::vector<Route>& routes_;
  Budget& budget_;
  std::vector<Progress> progress_;
  RoutedSegments routed_;
};

}  // namespace

RoutedSegments CutTapes(const Atoms& atoms, const DemandClasses& demand,
                        const std::vector<Route>& routes, Budget& budget) {
  return TapeCutter(atoms, demand, routes, budget).Run();
}

}  // namespace remesh::planner
