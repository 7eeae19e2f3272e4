// SPDX-License-Identifier: Apache-2.0
#include "planner/values/coverage.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/values/median_cut.h"

namespace remesh::planner {
namespace {

// The number of regions after which a coverage search gives up: far more than any grid of 2^20
// tiles needs.
constexpr int64_t kRegionsMax = int64_t{1} << 24;

struct Search {
  Budget& budget;
  int64_t regions_left = kRegionsMax;
  std::optional<Box> uncovered;
};

// True when `boxes`, each of which overlaps `region`, cover it; else search.uncovered is a box that
// none of them overlaps. The depth is the logarithm of the number of boundaries.
bool Covers(const Box& region, const std::vector<const Box*>& boxes, Search& search) {
  if (boxes.empty() || --search.regions_left < 0 || search.budget.Spent()) {
    search.uncovered = region;
    return false;
  }
  for (const Box* box : boxes) {
    if (box->Contains(region)) return true;
  }
  const BoxCut cut = *MedianCut(region, boxes);  // exists, since no box contains the region
  for (bool upper : {false, true}) {
    Box half = region;
    (upper ? half.dims[cut.dim].lo : half.dims[cut.dim].hi) = cut.at;
    std::vector<const Box*> inside;
    for (const Box* box : boxes) {
      if (Intersect(half, *box)) inside.push_back(box);
    }
    if (!Covers(half, inside, search)) return false;
  }
  return true;
}

// Tiles of separable layouts never overlap, so it is enough to add up their elements.
bool CoversByCount(const Layout& layout, const std::vector<const Box*>& boxes) {
  if (!layout.partitions) return false;
  int64_t covered = 0;
  for (const Box* box : boxes) covered += box->element_count();
  return covered == ElementCount(layout.shape);
}

bool HasLivingPosition(absl::Span<const int32_t> positions, const std::vector<bool>& lost) {
  return std::any_of(positions.begin(), positions.end(), [&](int32_t p) { return !lost[p]; });
}

}  // namespace

absl::Status CheckCovers(const Layout& layout, absl::Span<const int32_t> lost_positions,
                         Budget& budget) {
  const Box whole = Box::Whole(layout.shape);
  if (whole.empty()) return absl::OkStatus();
  std::vector<bool> lost(layout.device_count, false);
  for (int32_t position : lost_positions) lost[position] = true;
  std::map<int64_t, std::vector<const Box*>> boxes_of_subgroup;
  if (layout.tiles.empty()) boxes_of_subgroup[0];
  for (size_t t = 0; t < layout.tiles.size(); ++t) {
    const Tile& tile = layout.tiles[t];
    std::vector<const Box*>& boxes = boxes_of_subgroup[tile.subgroup];
    if (!HasLivingPosition(layout.PositionsOf(t), lost)) continue;
    for (const Box& box : tile.boxes) boxes.push_back(&box);
  }
  for (const auto& [subgroup, boxes] : boxes_of_subgroup) {
    if (CoversByCount(layout, boxes)) continue;
    Search search{.budget = budget, .uncovered = {}};
    if (Covers(whole, boxes, search)) continue;
    RETURN_IF_ERROR(budget.Check());
    const std::string of =
        layout.subgroup_kind.empty() ? "" : absl::StrCat(" of subgroup ", subgroup);
    if (search.regions_left < 0)
      return InvalidField("boxes", absl::StrCat(boxes.size()), "boxes are too intricate");
    return InvalidField("boxes", search.uncovered->DebugString(),
                        absl::StrCat("is held by no device", of,
                                     ": together, the boxes must cover the whole array"));
  }
  return absl::OkStatus();
}

}  // namespace remesh::planner
