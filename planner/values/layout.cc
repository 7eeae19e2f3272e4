// SPDX-License-Identifier: Apache-2.0
#include "planner/values/layout.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "planner/values/box_union.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

constexpr int64_t kBoxesMax = int64_t{1} << 20;
constexpr size_t kTilesShownMax = 64;

// The maximal intervals of each part of one dimension. Part p has intervals[first[p]] ..
// intervals[first[p + 1] - 1], rising.
struct PartIntervals {
  explicit PartIntervals(const DimPartition& partition) : first(partition.parts + 1, 0) {
    std::vector<int64_t> end_of(partition.parts, -1);  // of each part's last interval so far
    const auto for_each = [&](const auto& visit) {
      for (size_t i = 0; i < partition.part_of.size(); ++i) {
        const int64_t part = partition.part_of[i];
        visit(part, partition.cuts[i], partition.cuts[i + 1], end_of[part] == partition.cuts[i]);
        end_of[part] = partition.cuts[i + 1];
      }
      end_of.assign(partition.parts, -1);
    };
    for_each([&](int64_t part, int64_t, int64_t, bool joins) { first[part + 1] += !joins; });
    for (int64_t p = 0; p < partition.parts; ++p) first[p + 1] += first[p];
    intervals.resize(first.back());
    std::vector<int64_t> next(first.begin(), first.end() - 1);
    for_each([&](int64_t part, int64_t lo, int64_t hi, bool joins) {
      if (joins) {
        intervals[next[part] - 1].hi = hi;
      } else {
        intervals[next[part]++] = {lo, hi};
      }
    });
  }

  int64_t parts() const { return static_cast<int64_t>(first.size()) - 1; }
  absl::Span<const Interval> Of(int64_t part) const {
    return absl::MakeSpan(intervals).subspan(first[part], first[part + 1] - first[part]);
  }
  // Whether the begins of the parts that are not empty rise with the parts' numbers.
  bool InOrder() const {
    int64_t last = -1;
    for (int64_t p = 0; p < parts(); ++p) {
      if (first[p] == first[p + 1]) continue;
      if (intervals[first[p]].lo < last) return false;
      last = intervals[first[p]].lo;
    }
    return true;
  }

  std::vector<int64_t> first;
  std::vector<Interval> intervals;
};

// The boxes of tiles: products of the intervals of their parts.
class TileBoxes {
 public:
  explicit TileBoxes(const std::vector<DimPartition>& partitions)
      : dims_(partitions.begin(), partitions.end()) {
    parts_.resize(dims_.size());
    box_.dims.resize(dims_.size());
    for (const PartIntervals& dim : dims_) {
      REMESH_CHECK(!__builtin_mul_overflow(count_, dim.parts(), &count_));
    }
  }

  // Number of tiles, including empty ones.
  int64_t count() const { return count_; }

  // Whether boxes rise with the numbers of their tiles: the first box of a tile is the product of
  // its parts' first intervals.
  bool InOrder() const {
    return std::all_of(dims_.begin(), dims_.end(), [](const auto& dim) { return dim.InOrder(); });
  }

  // Appends the boxes of a tile, sorted; none for an empty tile.
  void Append(int64_t number, absl::InlinedVector<Box, 1>& boxes) {
    for (size_t d = dims_.size(); d-- > 0; number /= dims_[d].parts()) {
      parts_[d] = number % dims_[d].parts();
    }
    AppendFrom(0, boxes);
  }

 private:
  void AppendFrom(size_t dim, absl::InlinedVector<Box, 1>& boxes) {
    if (dim == dims_.size()) return boxes.push_back(box_);
    for (const Interval& interval : dims_[dim].Of(parts_[dim])) {
      box_.dims[dim] = interval;
      AppendFrom(dim + 1, boxes);
    }
  }

  std::vector<PartIntervals> dims_;
  int64_t count_ = 1;
  absl::InlinedVector<int64_t, 4> parts_;  // of the current tile
  Box box_;
};

// Positions sorted by their keys; positions with equal keys rise.
std::vector<int32_t> OrderByKey(const std::vector<int64_t>& keys) {
  std::vector<int32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  if (std::is_sorted(keys.begin(), keys.end())) return order;
  const size_t greatest = *std::max_element(keys.begin(), keys.end());
  if (greatest / 4 > keys.size()) {
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return keys[a] < keys[b]; });
    return order;
  }
  std::vector<int32_t> next(greatest + 2, 0);  // few keys: a counting sort
  for (int64_t key : keys) ++next[key + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (size_t i = 0; i < keys.size(); ++i) order[next[keys[i]]++] = static_cast<int32_t>(i);
  return order;
}

auto OrderOf(const Tile& tile) { return std::tie(tile.subgroup, tile.boxes); }

// Sorts tiles by (subgroup, boxes), and renumbers tile_of.
void SortTiles(std::vector<Tile>& tiles, std::vector<int32_t>& tile_of) {
  std::vector<int32_t> order(tiles.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return OrderOf(tiles[a]) < OrderOf(tiles[b]); });
  std::vector<Tile> sorted;
  Reserve(sorted, tiles.size());
  std::vector<int32_t> new_number(tiles.size());
  for (const int32_t tile : order) {
    new_number[tile] = static_cast<int32_t>(sorted.size());
    sorted.push_back(std::move(tiles[tile]));
  }
  tiles = std::move(sorted);
  for (int32_t& tile : tile_of) tile = tile < 0 ? -1 : new_number[tile];
}

absl::StatusOr<std::vector<Box>> CheckedBoxes(const Shape& shape, const std::vector<Box>& boxes) {
  const Box whole = Box::Whole(shape);
  std::vector<Box> kept;
  std::vector<size_t> index_of;
  for (size_t j = 0; j < boxes.size(); ++j) {
    const Box& box = boxes[j];
    const std::string field = absl::StrCat("boxes[", j, "]");
    if (box.rank() != whole.rank()) {
      return InvalidField(field, box.DebugString(), absl::StrCat("must have rank ", whole.rank()));
    }
    const bool falls = std::any_of(box.dims.begin(), box.dims.end(),
                                   [](const Interval& i) { return i.hi < i.lo; });
    if (falls)
      return InvalidField(field, box.DebugString(), "must have lo <= hi in every dimension");
    if (!whole.Contains(box)) {
      return InvalidField(field, box.DebugString(),
                          absl::StrCat("must lie within ", whole.DebugString()));
    }
    if (box.empty()) continue;
    kept.push_back(box);
    index_of.push_back(j);
  }
  if (static_cast<int64_t>(kept.size()) > kBoxesOfPositionMax) {
    return InvalidField(
        "boxes", absl::StrCat(kept.size()),
        absl::StrCat("boxes are more than ", kBoxesOfPositionMax, ", the most for one device"));
  }
  if (const auto overlap = FindOverlap(kept)) {
    return InvalidField(absl::StrCat("boxes[", index_of[overlap->second], "]"),
                        kept[overlap->second].DebugString(),
                        absl::StrCat("overlaps boxes[", index_of[overlap->first],
                                     "] of the same device, ", kept[overlap->first].DebugString()));
  }
  return SlabDecomposition(std::move(kept));
}

}  // namespace

DimPartition TilePartition(int64_t extent, int64_t parts) {
  REMESH_CHECK(extent >= 0 && parts >= 1);
  DimPartition partition{.parts = parts, .cuts = {0}, .part_of = {}};
  partition.cuts.reserve(std::min(extent, parts) + 1);
  partition.part_of.reserve(std::min(extent, parts));
  const int64_t tile = extent / parts + (extent % parts != 0 ? 1 : 0);
  int64_t part = 0;
  for (int64_t lo = 0; lo < extent; lo += tile) {
    partition.cuts.push_back(std::min(lo + tile, extent));
    partition.part_of.push_back(part++);
  }
  return partition;
}

void IndexPositions(Layout& layout) {
  layout.first_position.assign(layout.tiles.size() + 1, 0);
  for (const int32_t tile : layout.tile_of) {
    if (tile >= 0) ++layout.first_position[tile + 1];
  }
  std::partial_sum(layout.first_position.begin(), layout.first_position.end(),
                   layout.first_position.begin());
  layout.positions.resize(layout.first_position.back());
  std::vector<int32_t> next = layout.first_position;
  for (size_t position = 0; position < layout.tile_of.size(); ++position) {
    const int32_t tile = layout.tile_of[position];
    if (tile >= 0) layout.positions[next[tile]++] = static_cast<int32_t>(position);
  }
}

bool operator==(const Layout& a, const Layout& b) {
  const auto same = [](const Tile& s, const Tile& t) {
    return s.subgroup == t.subgroup && s.boxes == t.boxes;
  };
  return a.shape == b.shape && a.device_count == b.device_count &&
         a.subgroup_kind == b.subgroup_kind && a.tile_of == b.tile_of &&
         std::equal(a.tiles.begin(), a.tiles.end(), b.tiles.begin(), b.tiles.end(), same);
}

std::string Layout::DebugString() const {
  std::string text = absl::StrCat("[", absl::StrJoin(shape, ","), "] on ", device_count,
                                  subgroup_kind.empty() ? "" : " ", subgroup_kind, ":");
  for (size_t t = 0; t < std::min(tiles.size(), kTilesShownMax); ++t) {
    absl::StrAppend(&text, t == 0 ? " " : "; ");
    if (!subgroup_kind.empty()) absl::StrAppend(&text, "subgroup ", tiles[t].subgroup, " ");
    for (const Box& box : tiles[t].boxes) text += box.DebugString();
    absl::StrAppend(&text, " at ", absl::StrJoin(PositionsOf(t), ","));
  }
  if (tiles.size() > kTilesShownMax)
    absl::StrAppend(&text, "; ", tiles.size() - kTilesShownMax, " more tiles");
  return text;
}

Layout MakeSeparableLayout(Shape shape, std::vector<DimPartition> partitions,
                           absl::Span<const int64_t> numbers, absl::Span<const int64_t> subgroups,
                           std::string subgroup_kind) {
  REMESH_CHECK(partitions.size() == shape.size());
  REMESH_CHECK(subgroups.empty() || subgroups.size() == numbers.size());
  Layout layout{.shape = std::move(shape),
                .device_count = static_cast<int32_t>(numbers.size()),
                .subgroup_kind = std::move(subgroup_kind)};
  TileBoxes boxes(partitions);
  std::vector<int64_t> keys(numbers.begin(), numbers.end());  // of (subgroup, number)
  for (size_t i = 0; i < keys.size(); ++i) {
    REMESH_CHECK(keys[i] >= 0 && keys[i] < boxes.count());
    if (subgroups.empty()) continue;
    int64_t first = 0;
    REMESH_CHECK(subgroups[i] >= 0);
    REMESH_CHECK(!__builtin_mul_overflow(subgroups[i], boxes.count(), &first));
    REMESH_CHECK(!__builtin_add_overflow(first, keys[i], &keys[i]));
  }
  const std::vector<int32_t> order = OrderByKey(keys);
  size_t count = 0;  // of tiles
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || keys[order[i]] != keys[order[i - 1]]) ++count;
  }
  std::vector<Tile> tiles;
  Reserve(tiles, count);
  layout.tile_of.assign(numbers.size(), -1);
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const int32_t position = order[begin];
    while (end < order.size() && keys[order[end]] == keys[position]) ++end;
    Tile& tile = tiles.emplace_back();
    boxes.Append(numbers[position], tile.boxes);
    tile.subgroup = subgroups.empty() ? 0 : subgroups[position];
    tile.number = numbers[position];
    if (tile.boxes.empty()) {
      tiles.pop_back();
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      layout.tile_of[order[i]] = static_cast<int32_t>(tiles.size()) - 1;
    }
  }
  if (!boxes.InOrder()) SortTiles(tiles, layout.tile_of);
  layout.partitions = std::move(partitions);
  layout.tiles = TileList(std::move(tiles));
  IndexPositions(layout);
  return layout;
}

absl::StatusOr<Layout> MakeBoxLayout(Shape shape, absl::Span<const std::vector<Box>> boxes) {
  Layout layout{.shape = std::move(shape), .device_count = static_cast<int32_t>(boxes.size())};
  layout.tile_of.assign(boxes.size(), -1);
  std::vector<Tile> tiles;
  absl::flat_hash_map<std::vector<Box>, int32_t> tile_of_boxes;
  int64_t total = 0;
  for (size_t position = 0; position < boxes.size(); ++position) {
    auto checked = CheckedBoxes(layout.shape, boxes[position]);
    if (!checked.ok()) return AtField(absl::StrCat("[", position, "]"), checked.status());
    total += static_cast<int64_t>(checked->size());
    if (total > kBoxesMax)
      return InvalidField("boxes", absl::StrCat(total), "boxes of one array are too many");
    if (checked->empty()) continue;
    const auto [entry, inserted] =
        tile_of_boxes.try_emplace(*checked, static_cast<int32_t>(tiles.size()));
    if (inserted) tiles.emplace_back().boxes.assign(checked->begin(), checked->end());
    layout.tile_of[position] = entry->second;
  }
  SortTiles(tiles, layout.tile_of);
  layout.tiles = TileList(std::move(tiles));
  IndexPositions(layout);
  return layout;
}

absl::Span<const Box> BoxesOf(const Layout& layout, int32_t position) {
  REMESH_CHECK(position >= 0 && position < layout.device_count);
  const int32_t tile = layout.tile_of[position];
  if (tile < 0) return {};
  return layout.tiles[tile].boxes;
}

}  // namespace remesh::planner
