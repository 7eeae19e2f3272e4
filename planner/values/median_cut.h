// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "planner/values/box.h"

namespace remesh::planner {

struct BoxCut {
  int dim;
  int64_t at;
};

// Where to halve `region`: at the median boundary of the dimension that has the most box boundaries
// strictly inside the region. nullopt when every box that meets the region contains it.
// `pointer_of` returns the pointer to an entry's box.
template <typename Entry, typename PointerOf = std::identity>
std::optional<BoxCut> MedianCut(const Box& region, const std::vector<Entry>& boxes,
                                PointerOf pointer_of = {}) {
  std::vector<int64_t> best;
  int best_dim = 0;
  for (int d = 0; d < region.rank(); ++d) {
    std::vector<int64_t> cuts;
    for (const Entry& entry : boxes) {
      const Box& box = *std::invoke(pointer_of, entry);
      for (int64_t cut : {box.dims[d].lo, box.dims[d].hi}) {
        if (cut > region.dims[d].lo && cut < region.dims[d].hi) cuts.push_back(cut);
      }
    }
    if (cuts.size() <= best.size()) continue;
    best = std::move(cuts);
    best_dim = d;
  }
  if (best.empty()) return std::nullopt;
  const auto median = best.begin() + static_cast<std::ptrdiff_t>(best.size() / 2);
  std::nth_element(best.begin(), median, best.end());
  return BoxCut{best_dim, *median};
}

}  // namespace remesh::planner
