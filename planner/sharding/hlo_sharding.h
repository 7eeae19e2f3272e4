// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/sharding/named_sharding.h"
#include "planner/sharding/tile_assignment.h"

namespace remesh::planner {

// What a trailing dimension of a tile assignment means for the devices along it. In canonical
// order.
enum class SubgroupType : int8_t { kMaximal, kManual, kUnreduced, kReplicated };

// Every device holds all of the array.
struct Replicated {
  friend bool operator==(const Replicated&, const Replicated&) = default;
};
// The device at `position` alone holds the array.
struct Maximal {
  int64_t position = 0;
  friend bool operator==(const Maximal&, const Maximal&) = default;
};
// Every device holds a value of its own, of the whole shape.
struct Manual {
  friend bool operator==(const Manual&, const Manual&) = default;
};
// Nothing is known about the placement.
struct Unknown {
  friend bool operator==(const Unknown&, const Unknown&) = default;
};
// Every device holds a partial result of the whole array.
struct Unreduced {
  ReductionOp reduction = ReductionOp::kSum;
  friend bool operator==(const Unreduced&, const Unreduced&) = default;
};
// The first dims() - subgroups dimensions of `tiles` cut the array's dimensions; the others are
// subgroups.
struct Tiled {
  using Subgroups = std::vector<SubgroupType>;
  TileAssignment tiles;
  Subgroups subgroups;
  ReductionOp reduction = ReductionOp::kSum;  // of kUnreduced subgroups

  int data_rank() const { return static_cast<int>(tiles.dims().size() - subgroups.size()); }
  friend bool operator==(const Tiled&, const Tiled&) = default;
};

// Propagation makes the shardings of a group the same, or alike. Has no meaning for a concrete
// placement.
struct ShardGroup {
  enum class Type : int8_t { kAs, kLike };
  Type type = Type::kAs;
  int64_t id = 0;

  friend bool operator==(const ShardGroup&, const ShardGroup&) = default;
};

// The origin of a sharding. Kept, but without meaning here.
struct OpMetadata {
  std::string op_type;
  std::string op_name;

  friend bool operator==(const OpMetadata&, const OpMetadata&) = default;
};

struct HloSharding;
// One leaf for each array, in preorder. Append() builds it.
struct Tuple {
  std::vector<HloSharding> leaves;
  int64_t listed_positions = 0;  // in the lists of all leaves' tile assignments

  friend bool operator==(const Tuple&, const Tuple&);
};

// An HLO sharding over the positions 0..n-1 of some device list. A value; == ignores metadata, as
// XLA's does.
struct HloSharding {
  using Form =
      std::variant<Replicated, Maximal, Manual, Unknown, Unreduced, Tiled, NamedSharding, Tuple>;
  Form form;
  std::optional<ShardGroup> shard_group;
  std::vector<OpMetadata> metadata;

  friend bool operator==(const HloSharding& a, const HloSharding& b) {
    return a.form == b.form && a.shard_group == b.shard_group;
  }
};
inline bool operator==(const Tuple& a, const Tuple& b) { return a.leaves == b.leaves; }

// Adds a leaf. INVALID_ARGUMENT without a field when the leaf is a tuple itself, or when there are
// too many leaves or too many positions in their lists: a short text may ask for far more positions
// than it has characters.
absl::Status Append(HloSharding leaf, Tuple& tuple);

// The canonical form, equal to XLA's, of tiles with the given trailing subgroups: drops subgroups
// of one device, merges those of one type and puts them in the order of SubgroupType, and sorts
// replicas. Without data tiles, a single manual, unreduced or replicated subgroup becomes the plain
// form of that name; subgroups of one device each and of several types become replicated.
// INVALID_ARGUMENT without a field when there are more subgroups than dimensions.
absl::StatusOr<HloSharding::Form> CanonicalTiles(TileAssignment tiles, Tiled::Subgroups subgroups,
                                                 ReductionOp reduction = ReductionOp::kSum);

// XLA carries the reduction of unreduced devices in metadata: op_type "sdy::reduction_op", op_name
// SUM, MAX or MIN. Removes such entries from `metadata` and returns the reduction; kSum when there
// is none. INVALID_ARGUMENT without a field for another op_name.
absl::StatusOr<ReductionOp> TakeReduction(std::vector<OpMetadata>& metadata);
// The entry that carries `op`.
OpMetadata ReductionMetadata(ReductionOp op);

// The V2 form of a named sharding: Maximal, Replicated, Manual, Unreduced or Tiled. REQUIRES:
// Canonicalized().
HloSharding::Form ToTiles(const NamedSharding& sharding);

}  // namespace remesh::planner
