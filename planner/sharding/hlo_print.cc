// SPDX-License-Identifier: Apache-2.0
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/named_text.h"

namespace remesh::planner {
namespace {

constexpr int kLeavesPerIndexComment = 5;

const char* NameOf(SubgroupType type) {
  switch (type) {
    case SubgroupType::kMaximal:
      return "maximal";
    case SubgroupType::kManual:
      return "manual";
    case SubgroupType::kUnreduced:
      return "unreduced";
    case SubgroupType::kReplicated:
      return "replicated";
  }
  return "";
}

std::string TilesText(const Tiled& tiled) {
  std::string text = absl::StrCat("devices=", PrintTiles(tiled.tiles));
  if (tiled.subgroups.size() == 1 && tiled.subgroups[0] == SubgroupType::kReplicated) {
    return text + " last_tile_dim_replicate";
  }
  if (tiled.subgroups.empty()) return text;
  return absl::StrCat(
      text, " last_tile_dims={",
      absl::StrJoin(tiled.subgroups, ", ",
                    [](std::string* out, SubgroupType type) { *out += NameOf(type); }),
      "}");
}

// Prints the text between the braces of a leaf, except the shard group and the reduction of tiles.
struct Body {
  std::string operator()(const Replicated&) const { return "replicated"; }
  std::string operator()(const Maximal& maximal) const {
    return absl::StrCat("maximal device=", maximal.position);
  }
  std::string operator()(const Manual&) const { return "manual"; }
  std::string operator()(const Unknown&) const { return "unknown"; }
  std::string operator()(const Unreduced& unreduced) const {
    return PrintUnreduced(unreduced.reduction);
  }
  std::string operator()(const Tiled& tiled) const { return TilesText(tiled); }
  std::string operator()(const NamedSharding& named) const { return PrintNamed(named); }
  std::string operator()(const Tuple&) const { return ""; }
};

std::string LeafText(const HloSharding& leaf) {
  std::string text = absl::StrCat("{", std::visit(Body{}, leaf.form));
  if (leaf.shard_group) {
    const bool as = leaf.shard_group->type == ShardGroup::Type::kAs;
    absl::StrAppend(&text, as ? " shard_as " : " shard_like ", leaf.shard_group->id);
  }
  // The grammar of tiles has no other place for it.
  const auto* tiled = std::get_if<Tiled>(&leaf.form);
  if (tiled != nullptr && tiled->reduction != ReductionOp::kSum) {
    const OpMetadata entry = ReductionMetadata(tiled->reduction);
    absl::StrAppend(&text, " metadata={op_type=\"", entry.op_type, "\" op_name=\"", entry.op_name,
                    "\"}");
  }
  return text + "}";
}

}  // namespace

std::string PrintHloSharding(const HloSharding& sharding) {
  const auto* tuple = std::get_if<Tuple>(&sharding.form);
  if (tuple == nullptr) return LeafText(sharding);
  std::string text = "{";
  for (size_t i = 0; i < tuple->leaves.size(); ++i) {
    if (i > 0) text += ", ";
    if (i > 0 && i % kLeavesPerIndexComment == 0) absl::StrAppend(&text, "/*index=", i, "*/");
    text += LeafText(tuple->leaves[i]);
  }
  return text + "}";
}

}  // namespace remesh::planner
