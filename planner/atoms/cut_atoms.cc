// SPDX-License-Identifier: Apache-2.0
#include "planner/atoms/cut_atoms.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/values/median_cut.h"

namespace remesh::planner {
namespace {

std::set<int64_t> SubgroupsOf(const Layout& layout) {
  std::set<int64_t> subgroups;
  for (const Tile& tile : layout.tiles) subgroups.insert(tile.subgroup);
  return subgroups;
}

// Finds tiles of one subgroup by their numbers (Tile::number).
class TileIndex {
 public:
  TileIndex(const Layout& layout, int64_t subgroup) {
    strides_.resize(layout.shape.size());
    int64_t count = 1;  // fits 64 bits, as the keys of Layout do
    for (size_t d = strides_.size(); d-- > 0;) {
      strides_[d] = count;
      count *= (*layout.partitions)[d].parts;
    }
    if (count <= kDenseMax) dense_.assign(count, -1);
    for (size_t t = 0; t < layout.tiles.size(); ++t) {
      const Tile& tile = layout.tiles[t];
      if (tile.subgroup != subgroup || layout.PositionsOf(t).empty()) continue;
      (dense_.empty() ? sparse_[tile.number] : dense_[tile.number]) = static_cast<int32_t>(t);
    }
  }

  int64_t stride(size_t dim) const { return strides_[dim]; }

  // -1 when no position holds these parts.
  int32_t Find(int64_t key) const {
    if (!dense_.empty()) return dense_[key];
    const auto found = sparse_.find(key);
    return found == sparse_.end() ? -1 : found->second;
  }

 private:
  static constexpr int64_t kDenseMax = int64_t{1} << 20;
  std::vector<int64_t> strides_;
  std::vector<int32_t> dense_;
  absl::flat_hash_map<int64_t, int32_t> sparse_;
};

// An interval of one dimension, from the end of the previous one to `hi`, and the parts of source
// and target that contain it.
struct Overlap {
  int64_t hi = 0;
  int64_t source_part = 0;
  int64_t target_part = 0;
};

std::vector<Overlap> MergeWalk(const DimPartition& source, const DimPartition& target) {
  std::vector<Overlap> overlaps;
  size_t s = 0;
  size_t t = 0;
  while (s < source.part_of.size() && t < target.part_of.size()) {
    const int64_t next = std::min(source.cuts[s + 1], target.cuts[t + 1]);
    overlaps.push_back({next, source.part_of[s], target.part_of[t]});
    s += source.cuts[s + 1] == next;
    t += target.cuts[t + 1] == next;
  }
  return overlaps;
}

// Walks over the product of overlaps, keeping both keys up to date. Ends with the first error.
class ProductWalk {
 public:
  ProductWalk(const std::vector<std::vector<Overlap>>& dims, const TileIndex& source,
              const TileIndex& target, Budget& budget)
      : dims_(dims), source_(source), target_(target), budget_(budget) {}

  template <typename Visit>
  absl::Status Run(const Visit& visit) {
    return Descend(0, 1, 0, 0, visit);
  }

 private:
  template <typename Visit>
  absl::Status Descend(size_t dim, int64_t elements, int64_t source_key, int64_t target_key,
                       const Visit& visit) {
    if (dim == dims_.size()) {
      return visit(next_++, elements, source_.Find(source_key), target_.Find(target_key));
    }
    int64_t lo = 0;
    for (const Overlap& overlap : dims_[dim]) {
      if (budget_.Spent()) return budget_.Check();
      const int64_t size = overlap.hi - lo;
      lo = overlap.hi;
      RETURN_IF_ERROR(Descend(dim + 1, elements * size,
                              source_key + source_.stride(dim) * overlap.source_part,
                              target_key + target_.stride(dim) * overlap.target_part, visit));
    }
    return absl::OkStatus();
  }

  const std::vector<std::vector<Overlap>>& dims_;
  const TileIndex& source_;
  const TileIndex& target_;
  Budget& budget_;
  int32_t next_ = 0;
};

absl::Status CutProduct(const Layout& source, const Layout& target, ArrayClass& array_class,
                        const VisitAtom& visit, Budget& budget) {
  std::vector<std::vector<Overlap>> dims;
  int64_t count = 1;
  for (size_t d = 0; d < source.shape.size(); ++d) {
    dims.push_back(MergeWalk((*source.partitions)[d], (*target.partitions)[d]));
    std::vector<int64_t> cuts = {0};
    for (const Overlap& overlap : dims.back()) cuts.push_back(overlap.hi);
    array_class.cuts.push_back(std::move(cuts));
    if (__builtin_mul_overflow(count, static_cast<int64_t>(dims.back().size()), &count) ||
        count > kAtomsMax) {
      return TooManyAtoms();
    }
  }
  array_class.atom_count = static_cast<int32_t>(count);
  if (array_class.first_atom + count > kAtomsMax) return TooManyAtoms();
  int64_t visited = 0;
  for (int64_t subgroup : SubgroupsOf(target)) {
    const TileIndex source_index(source, subgroup);
    const TileIndex target_index(target, subgroup);
    const auto take = [&](int32_t index, int64_t elements, int32_t s, int32_t t) {
      if (t < 0) return absl::OkStatus();
      if (++visited > kAtomsMax) return TooManyAtoms();
      return visit({.id = array_class.first_atom + index,
                    .elements = elements,
                    .source_tiles = absl::MakeConstSpan(&s, s >= 0 ? 1 : 0),
                    .target_tiles = absl::MakeConstSpan(&t, 1)});
    };
    RETURN_IF_ERROR(ProductWalk(dims, source_index, target_index, budget).Run(take));
  }
  return budget.Check();
}

// A box of a tile that overlaps the current region.
struct TileBox {
  const Box* box;
  int32_t tile;
  bool is_target;
};

// Cuts the array at box boundaries by halving at the median boundary, until every box that overlaps
// a region contains it.
class BoxCutter {
 public:
  BoxCutter(ArrayClass& array_class, const VisitAtom& visit, Budget& budget)
      : array_class_(array_class), visit_(visit), budget_(budget) {}

  absl::Status Cut(const Box& region, const std::vector<TileBox>& boxes) {
    if (budget_.Spent()) return budget_.Check();
    if (std::none_of(boxes.begin(), boxes.end(), [](const TileBox& p) { return p.is_target; })) {
      return absl::OkStatus();
    }
    const std::optional<BoxCut> cut = MedianCut(region, boxes, &TileBox::box);
    if (!cut) return Emit(region, boxes);
    for (bool upper : {false, true}) {
      Box half = region;
      (upper ? half.dims[cut->dim].lo : half.dims[cut->dim].hi) = cut->at;
      std::vector<TileBox> inside;
      for (const TileBox& one : boxes) {
        if (Intersect(half, *one.box)) inside.push_back(one);
      }
      RETURN_IF_ERROR(Cut(half, inside));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Emit(const Box& region, const std::vector<TileBox>& boxes) {
    if (array_class_.first_atom + array_class_.atom_count >= kAtomsMax) return TooManyAtoms();
    overlaps_ += static_cast<int64_t>(boxes.size());
    if (overlaps_ > kOverlapsMax) return TooManyOverlaps();
    array_class_.boxes.push_back(region);
    std::vector<int32_t> tiles[2];
    for (const TileBox& one : boxes) tiles[one.is_target].push_back(one.tile);
    return visit_({.id = array_class_.first_atom + array_class_.atom_count++,
                   .elements = region.element_count(),
                   .source_tiles = tiles[false],
                   .target_tiles = tiles[true]});
  }

  ArrayClass& array_class_;
  const VisitAtom& visit_;
  Budget& budget_;
  int64_t overlaps_ = 0;
};

void AddTileBoxes(const Layout& layout, int64_t subgroup, bool is_target,
                  std::vector<TileBox>& boxes) {
  for (size_t t = 0; t < layout.tiles.size(); ++t) {
    const Tile& tile = layout.tiles[t];
    if (tile.subgroup != subgroup || layout.PositionsOf(t).empty()) continue;
    for (const Box& box : tile.boxes) boxes.push_back({&box, static_cast<int32_t>(t), is_target});
  }
}

absl::Status CutBoxes(const Layout& source, const Layout& target, ArrayClass& array_class,
                      const VisitAtom& visit, Budget& budget) {
  BoxCutter cutter(array_class, visit, budget);
  for (int64_t subgroup : SubgroupsOf(target)) {
    std::vector<TileBox> boxes;
    AddTileBoxes(source, subgroup, false, boxes);
    AddTileBoxes(target, subgroup, true, boxes);
    RETURN_IF_ERROR(cutter.Cut(Box::Whole(source.shape), boxes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TooManyAtoms() {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("the layouts cut the arrays into more than ", kAtomsMax, " atoms"),
                   {"TOO_MANY_ATOMS", {{"limit", absl::StrCat(kAtomsMax)}}});
}

absl::Status TooManyOverlaps() {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("the boxes overlap too much: more than ", kOverlapsMax,
                                " pairs of a box and a device that holds or needs it"),
                   {"TOO_MANY_OVERLAPS", {{"limit", absl::StrCat(kOverlapsMax)}}});
}

absl::Status CutIntoAtoms(const Layout& source, const Layout& target, ArrayClass& array_class,
                          const VisitAtom& visit, Budget& budget) {
  if (ElementCount(source.shape) == 0) return absl::OkStatus();
  if (source.partitions.has_value() && target.partitions.has_value()) {
    return CutProduct(source, target, array_class, visit, budget);
  }
  return CutBoxes(source, target, array_class, visit, budget);
}

}  // namespace remesh::planner
