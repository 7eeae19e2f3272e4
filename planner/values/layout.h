// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/values/box.h"

namespace remesh::planner {

// How a dimension of extent s is cut, the same for all devices: part p covers the intervals
// [cuts[i], cuts[i+1]) with part_of[i] == p. cuts rises strictly from 0 to s (cuts == {0} when s ==
// 0); a part without an interval is empty. Example: 11 over 6 in tiles of ceil(11/6) = 2: cuts
// {0,2,4,6,8,10,11}, part_of {0,1,2,3,4,5}.
struct DimPartition {
  int64_t parts = 1;
  std::vector<int64_t> cuts;
  std::vector<int64_t> part_of;

  friend bool operator==(const DimPartition&, const DimPartition&) = default;
};

// XLA's tiles: part t of k over extent s is [min(t*c, s), min((t+1)*c, s)) with c = ceil(s/k).
// REQUIRES: s >= 0, k >= 1.
DimPartition TilePartition(int64_t extent, int64_t parts);

// Boxes that devices of one subgroup hold, which are replicas of each other. In a large mesh there
// may be a tile per device, so the usual tile, of one box, allocates no memory.
struct Tile {
  absl::InlinedVector<Box, 1>
      boxes;             // disjoint, none empty, sorted; no box at all for an empty shard
  int64_t subgroup = 0;  // peers in other subgroups are not replicas, even with equal boxes
  int64_t number = -1;   // of a separable layout: its parts in mixed radix, last dimension fastest

  friend bool operator==(const Tile&, const Tile&) = default;
};

// A list of tiles, which layouts that put them on other positions share. A value; copies are cheap.
class TileList {
 public:
  TileList() : TileList(std::vector<Tile>()) {}
  explicit TileList(std::vector<Tile> tiles)
      : tiles_(std::make_shared<const std::vector<Tile>>(std::move(tiles))) {}

  bool empty() const { return tiles_->empty(); }
  size_t size() const { return tiles_->size(); }
  const Tile& operator[](size_t tile) const { return (*tiles_)[tile]; }
  auto begin() const { return tiles_->begin(); }
  auto end() const { return tiles_->end(); }

 private:
  std::shared_ptr<const std::vector<Tile>> tiles_;
};

// The one internal form of a sharding: which boxes of an array of `shape` each position of the
// device list holds. A value; built by the functions below. Positions in no tile hold nothing.
// Tiles are ordered by (subgroup, boxes), so equal layouts compare equal whichever front end they
// came from.
struct Layout {
  Shape shape;
  int32_t device_count = 0;  // length of the device list
  TileList tiles;
  std::vector<int32_t> tile_of;  // the tile of each position, -1 where it holds nothing
  // The positions of all tiles, tile after tile, and where those of each begin: see PositionsOf().
  std::vector<int32_t> positions;
  std::vector<int32_t> first_position;
  // Set when every tile is a product of parts, one per dimension (all front ends but explicit
  // boxes).
  std::optional<std::vector<DimPartition>> partitions;
  // Names the kind of subgroups, e.g. "manual(2)", "unreduced[sum](4)"; empty when subgroup is 0
  // everywhere. Elements move only between layouts with equal subgroup kinds and with equal
  // subgroups at every position of the request's devices.
  std::string subgroup_kind;

  // The positions in the device list that hold a tile, rising. REQUIRES: IndexPositions().
  absl::Span<const int32_t> PositionsOf(size_t tile) const {
    return absl::MakeConstSpan(positions).subspan(first_position[tile],
                                                  first_position[tile + 1] - first_position[tile]);
  }

  // Compares boxes, positions and subgroups, not how the layout was built (numbers, partitions).
  friend bool operator==(const Layout& a, const Layout& b);
  std::string DebugString() const;
};

using LayoutPtr = std::shared_ptr<const Layout>;

// Fills `positions` and `first_position`. To be called once tiles and tile_of are complete.
void IndexPositions(Layout& layout);

// The most boxes that one position of a box layout may hold.
inline constexpr int64_t kBoxesOfPositionMax = 4096;

// Position i holds the tile numbers[i] (see Tile::number), in subgroup subgroups[i] (empty: all 0).
// Example: over partitions of 2 and 3 parts, tile 4 is part 1 of dimension 0 and part 1 of
// dimension 1. REQUIRES: partitions.size() == shape.size(); every number is below the product of
// all DimPartition::parts, every subgroup >= 0, and (greatest subgroup + 1) x that product fits
// int64.
Layout MakeSeparableLayout(Shape shape, std::vector<DimPartition> partitions,
                           absl::Span<const int64_t> numbers,
                           absl::Span<const int64_t> subgroups = {},
                           std::string subgroup_kind = "");

// Position i holds boxes[i]. INVALID_ARGUMENT (fields "[i].boxes[j]") when a box has another rank
// than the shape, does not fit it, has hi < lo, or overlaps another box of the same position, or
// when a position has too many boxes. Drops empty boxes, and cuts each position's boxes again in a
// way that depends only on their union (box_union.h), so that equal shards are equal however the
// caller cut them.
absl::StatusOr<Layout> MakeBoxLayout(Shape shape, absl::Span<const std::vector<Box>> boxes);

// The boxes of a position; empty span when it holds nothing. REQUIRES: 0 <= position <
// device_count.
absl::Span<const Box> BoxesOf(const Layout& layout, int32_t position);

}  // namespace remesh::planner
