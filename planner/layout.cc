// SPDX-License-Identifier: Apache-2.0
#include "planner/layout.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/box_union.h"

namespace remesh {
namespace {

constexpr int64_t kBoxesMax = int64_t{1} << 20;
constexpr size_t kTilesShownMax = 64;

// The intervals of each part of one dimension, neighbours joined. Part p has intervals[first[p]] ..
// intervals[first[p + 1] - 1].
struct PartIntervals {
  explicit PartIntervals(const DimPartition& partition) : first(partition.parts + 1, 0) {
    for (int64_t part : partition.part_of) ++first[part + 1];
    for (int64_t p = 0; p < partition.parts; ++p) first[p + 1] += first[p];
    intervals.resize(partition.part_of.size());
    std::vector<int64_t> next(first.begin(), first.end() - 1);
    for (size_t i = 0; i < partition.part_of.size(); ++i) {
      intervals[next[partition.part_of[i]]++] = {partition.cuts[i], partition.cuts[i + 1]};
    }
  }

  // Calls visit for every maximal interval of the part, rising.
  template <typename Visit>
  void ForEach(int64_t part, const Visit& visit) const {
    for (int64_t i = first[part]; i < first[part + 1];) {
      Interval joined = intervals[i++];
      while (i < first[part + 1] && intervals[i].lo == joined.hi) joined.hi = intervals[i++].hi;
      visit(joined);
    }
  }

  std::vector<int64_t> first;
  std::vector<Interval> intervals;
};

// The product of the parts' intervals, sorted.
std::vector<Box> BoxesOfParts(const std::vector<PartIntervals>& dims,
                              const std::vector<int64_t>& parts) {
  std::vector<Box> boxes(1);
  for (size_t d = 0; d < dims.size(); ++d) {
    std::vector<Box> longer;
    for (Box& box : boxes) {
      dims[d].ForEach(parts[d], [&](const Interval& interval) {
        longer.push_back(box);
        longer.back().dims.push_back(interval);
      });
    }
    boxes = std::move(longer);
  }
  return boxes;
}

auto OrderOf(const Tile& tile) { return std::tie(tile.subgroup, tile.boxes); }

// Puts the tiles in their order and fills tile_of.
void Finish(Layout& layout) {
  const auto before = [](const Tile& a, const Tile& b) { return OrderOf(a) < OrderOf(b); };
  if (!std::is_sorted(layout.tiles.begin(), layout.tiles.end(), before)) {
    std::sort(layout.tiles.begin(), layout.tiles.end(), before);
  }
  layout.tile_of.assign(layout.device_count, -1);
  for (size_t t = 0; t < layout.tiles.size(); ++t) {
    for (int32_t position : layout.tiles[t].positions)
      layout.tile_of[position] = static_cast<int32_t>(t);
  }
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
  const int64_t tile = extent / parts + (extent % parts != 0 ? 1 : 0);
  int64_t part = 0;
  for (int64_t lo = 0; lo < extent; lo += tile) {
    partition.cuts.push_back(std::min(lo + tile, extent));
    partition.part_of.push_back(part++);
  }
  return partition;
}

bool operator==(const Layout& a, const Layout& b) {
  const auto same = [](const Tile& s, const Tile& t) {
    return s.subgroup == t.subgroup && s.positions == t.positions && s.boxes == t.boxes;
  };
  return a.shape == b.shape && a.device_count == b.device_count &&
         a.subgroup_kind == b.subgroup_kind &&
         std::equal(a.tiles.begin(), a.tiles.end(), b.tiles.begin(), b.tiles.end(), same);
}

std::string Layout::DebugString() const {
  std::string text = absl::StrCat("[", absl::StrJoin(shape, ","), "] on ", device_count,
                                  subgroup_kind.empty() ? "" : " ", subgroup_kind, ":");
  for (size_t t = 0; t < std::min(tiles.size(), kTilesShownMax); ++t) {
    absl::StrAppend(&text, t == 0 ? " " : "; ");
    if (!subgroup_kind.empty()) absl::StrAppend(&text, "subgroup ", tiles[t].subgroup, " ");
    for (const Box& box : tiles[t].boxes) text += box.DebugString();
    absl::StrAppend(&text, " at ", absl::StrJoin(tiles[t].positions, ","));
  }
  if (tiles.size() > kTilesShownMax)
    absl::StrAppend(&text, "; ", tiles.size() - kTilesShownMax, " more tiles");
  return text;
}

Layout MakeSeparableLayout(Shape shape, std::vector<DimPartition> partitions,
                           absl::Span<const std::vector<int64_t>> parts,
                           absl::Span<const int64_t> subgroups, std::string subgroup_kind) {
  REMESH_CHECK(partitions.size() == shape.size());
  REMESH_CHECK(subgroups.empty() || subgroups.size() == parts.size());
  Layout layout{.shape = std::move(shape),
                .device_count = static_cast<int32_t>(parts.size()),
                .subgroup_kind = std::move(subgroup_kind)};
  const std::vector<PartIntervals> dims(partitions.begin(), partitions.end());
  // Keys of tiles are their subgroup and parts in mixed radix; kEmpty stands for tiles without
  // elements.
  constexpr int32_t kEmpty = -1;
  absl::flat_hash_map<int64_t, int32_t> tile_of_key;
  for (size_t position = 0; position < parts.size(); ++position) {
    int64_t key = subgroups.empty() ? 0 : subgroups[position];
    for (size_t d = 0; d < dims.size(); ++d) {
      REMESH_CHECK(parts[position][d] >= 0 && parts[position][d] < partitions[d].parts);
      REMESH_CHECK(!__builtin_mul_overflow(key, partitions[d].parts, &key));
      key += parts[position][d];
    }
    const auto [entry, inserted] = tile_of_key.try_emplace(key, kEmpty);
    if (inserted) {
      std::vector<Box> boxes = BoxesOfParts(dims, parts[position]);
      if (boxes.empty()) continue;
      entry->second = static_cast<int32_t>(layout.tiles.size());
      layout.tiles.push_back({.boxes = std::move(boxes),
                              .positions = {},
                              .subgroup = subgroups.empty() ? 0 : subgroups[position],
                              .parts = parts[position]});
    }
    if (entry->second != kEmpty)
      layout.tiles[entry->second].positions.push_back(static_cast<int32_t>(position));
  }
  layout.partitions = std::move(partitions);
  Finish(layout);
  return layout;
}

absl::StatusOr<Layout> MakeBoxLayout(Shape shape, absl::Span<const std::vector<Box>> boxes) {
  Layout layout{.shape = std::move(shape), .device_count = static_cast<int32_t>(boxes.size())};
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
        tile_of_boxes.try_emplace(*checked, static_cast<int32_t>(layout.tiles.size()));
    if (inserted) layout.tiles.push_back({.boxes = *std::move(checked)});
    layout.tiles[entry->second].positions.push_back(static_cast<int32_t>(position));
  }
  Finish(layout);
  return layout;
}

absl::Span<const Box> BoxesOf(const Layout& layout, int32_t position) {
  REMESH_CHECK(position >= 0 && position < layout.device_count);
  const int32_t tile = layout.tile_of[position];
  if (tile < 0) return {};
  return layout.tiles[tile].boxes;
}

}  // namespace remesh
