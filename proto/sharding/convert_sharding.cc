// SPDX-License-Identifier: Apache-2.0
#include "proto/sharding/convert_sharding.h"

#include <google/protobuf/stubs/logging.h>

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"

namespace remesh::proto {

using planner::HloSharding;
using planner::ReductionOp;
using planner::ShardGroup;
using planner::SubgroupType;
using planner::TileAssignment;

namespace {

using xla::OpSharding;

absl::StatusOr<SubgroupType> SubgroupFrom(int type) {
  switch (type) {
    case OpSharding::REPLICATED:
      return SubgroupType::kReplicated;
    case OpSharding::MAXIMAL:
      return SubgroupType::kMaximal;
    case OpSharding::MANUAL:
      return SubgroupType::kManual;
    case OpSharding::UNREDUCED:
      return SubgroupType::kUnreduced;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("last_tile_dims value ", type, " is not a type of subgroup"));
  }
}

OpSharding::Type TypeOf(SubgroupType type) {
  switch (type) {
    case SubgroupType::kMaximal:
      return OpSharding::MAXIMAL;
    case SubgroupType::kManual:
      return OpSharding::MANUAL;
    case SubgroupType::kUnreduced:
      return OpSharding::UNREDUCED;
    case SubgroupType::kReplicated:
      return OpSharding::REPLICATED;
  }
  return OpSharding::REPLICATED;
}

bool NamesDevices(const OpSharding& proto) {
  return proto.tile_assignment_devices_size() > 0 || proto.tile_assignment_dimensions_size() > 0 ||
         proto.iota_reshape_dims_size() > 0 || proto.last_tile_dims_size() > 0;
}

absl::StatusOr<TileAssignment> TilesFrom(const OpSharding& proto) {
  const auto& dims = proto.tile_assignment_dimensions();
  if (dims.empty()) {
    return absl::InvalidArgumentError(
        "non-maximal shardings must have a tile assignment list including dimensions");
  }
  const std::vector<int64_t> perm(proto.iota_transpose_perm().begin(),
                                  proto.iota_transpose_perm().end());
  if (proto.iota_reshape_dims_size() == 0) {
    if (!perm.empty())
      return absl::InvalidArgumentError("iota_transpose_perm is set without iota_reshape_dims");
    const auto& devices = proto.tile_assignment_devices();
    return TileAssignment::FromList(dims, std::vector<int64_t>(devices.begin(), devices.end()));
  }
  if (proto.tile_assignment_devices_size() > 0) {
    return absl::InvalidArgumentError(
        "tile_assignment_devices and iota_reshape_dims exclude each other");
  }
  return TileAssignment::FromIota(dims, proto.iota_reshape_dims(), perm);
}

absl::StatusOr<HloSharding::Form> TiledFrom(const OpSharding& proto, ReductionOp reduction) {
  ASSIGN_OR_RETURN(TileAssignment tiles, TilesFrom(proto));
  planner::Tiled::Subgroups subgroups;
  for (int type : proto.last_tile_dims()) {
    ASSIGN_OR_RETURN(const SubgroupType subgroup, SubgroupFrom(type));
    subgroups.push_back(subgroup);
  }
  if (proto.replicate_on_last_tile_dim()) {
    if (!subgroups.empty()) {
      return absl::InvalidArgumentError(
          "last_tile_dims and replicate_on_last_tile_dim exclude each other");
    }
    subgroups = {SubgroupType::kReplicated};
  }
  return planner::CanonicalTiles(std::move(tiles), std::move(subgroups), reduction);
}

absl::StatusOr<HloSharding::Form> MaximalFrom(const OpSharding& proto) {
  const int devices = proto.tile_assignment_devices_size();
  if (devices != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Maximal sharding is expected to have single device assignment, but ", devices,
                     " has provided"));
  }
  const int64_t device = proto.tile_assignment_devices(0);
  if (device < 0)
    return absl::InvalidArgumentError(absl::StrCat("device ", device, " is negative"));
  return planner::Maximal{device};
}

absl::StatusOr<HloSharding::Form> FormFrom(const OpSharding& proto, ReductionOp reduction) {
  switch (proto.type()) {
    case OpSharding::MAXIMAL:
      return MaximalFrom(proto);
    case OpSharding::OTHER:
      return TiledFrom(proto, reduction);
    case OpSharding::REPLICATED:
    case OpSharding::MANUAL:
    case OpSharding::UNKNOWN:
    case OpSharding::UNREDUCED:
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("type ", static_cast<int>(proto.type()), " is not known here"));
  }
  if (NamesDevices(proto)) {
    return absl::InvalidArgumentError(
        "replicated/manual/unknown/unreduced shardings should not have any devices assigned");
  }
  if (proto.type() == OpSharding::REPLICATED) return planner::Replicated{};
  if (proto.type() == OpSharding::MANUAL) return planner::Manual{};
  if (proto.type() == OpSharding::UNKNOWN) return planner::Unknown{};
  return planner::Unreduced{reduction};
}

absl::StatusOr<HloSharding> LeafFrom(const OpSharding& proto) {
  HloSharding leaf;
  if (proto.has_named_sharding()) {
    ASSIGN_OR_RETURN(leaf.form, FromProto(proto.named_sharding()));
    for (const auto& entry : proto.named_sharding().metadata()) {
      leaf.metadata.push_back({entry.op_type(), entry.op_name()});
    }
    return leaf;
  }
  if (proto.tuple_shardings_size() > 0)
    return absl::InvalidArgumentError("tuple_shardings of a sharding that is not a tuple");
  for (const auto& entry : proto.metadata())
    leaf.metadata.push_back({entry.op_type(), entry.op_name()});
  ASSIGN_OR_RETURN(const ReductionOp reduction, planner::TakeReduction(leaf.metadata));
  ASSIGN_OR_RETURN(leaf.form, FormFrom(proto, reduction));
  if (!proto.is_shard_group()) return leaf;
  if (proto.shard_group_type() != OpSharding::AS && proto.shard_group_type() != OpSharding::LIKE) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shard_group_type ", static_cast<int>(proto.shard_group_type()), " is not known"));
  }
  const bool as = proto.shard_group_type() == OpSharding::AS;
  leaf.shard_group = {as ? ShardGroup::Type::kAs : ShardGroup::Type::kLike, proto.shard_group_id()};
  return leaf;
}

// Writes a form into the fields of a leaf.
struct FormWriter {
  OpSharding& proto;

  void operator()(const planner::Replicated&) const { proto.set_type(OpSharding::REPLICATED); }
  void operator()(const planner::Maximal& maximal) const {
    proto.set_type(OpSharding::MAXIMAL);
    proto.add_tile_assignment_devices(maximal.position);
  }
  void operator()(const planner::Manual&) const { proto.set_type(OpSharding::MANUAL); }
  void operator()(const planner::Unknown&) const { proto.set_type(OpSharding::UNKNOWN); }
  void operator()(const planner::Unreduced& unreduced) const {
    proto.set_type(OpSharding::UNREDUCED);
    WriteReduction(unreduced.reduction);
  }
  void operator()(const planner::Tiled& tiled) const {
    proto.set_type(OpSharding::OTHER);
    const TileAssignment& tiles = tiled.tiles;
    proto.mutable_tile_assignment_dimensions()->Add(tiles.dims().begin(), tiles.dims().end());
    if (const TileAssignment::Iota* iota = tiles.iota()) {
      proto.mutable_iota_reshape_dims()->Add(iota->reshape_dims.begin(), iota->reshape_dims.end());
      for (int64_t d : iota->transpose_perm) proto.add_iota_transpose_perm(static_cast<int32_t>(d));
    } else {
      const std::vector<int64_t> positions = tiles.Positions();
      proto.mutable_tile_assignment_devices()->Add(positions.begin(), positions.end());
    }
    if (tiled.subgroups.size() == 1 && tiled.subgroups[0] == SubgroupType::kReplicated) {
      proto.set_replicate_on_last_tile_dim(true);
    } else {
      for (SubgroupType type : tiled.subgroups) proto.add_last_tile_dims(TypeOf(type));
    }
    WriteReduction(tiled.reduction);
  }
  void operator()(const planner::NamedSharding& named) const {
    *proto.mutable_named_sharding() = ToProto(named);
  }
  void operator()(const planner::Tuple& tuple) const {
    proto.set_type(OpSharding::TUPLE);
    for (const HloSharding& leaf : tuple.leaves) *proto.add_tuple_shardings() = ToProto(leaf);
  }

  void WriteReduction(ReductionOp op) const {
    if (op == ReductionOp::kSum) return;
    const planner::OpMetadata entry = planner::ReductionMetadata(op);
    proto.add_metadata()->set_op_type(entry.op_type);
    proto.mutable_metadata(0)->set_op_name(entry.op_name);
  }
};

}  // namespace

absl::StatusOr<HloSharding> FromProto(const OpSharding& proto) {
  if (proto.type() != OpSharding::TUPLE || proto.has_named_sharding()) return LeafFrom(proto);
  if (proto.metadata_size() > 0) {
    return absl::InvalidArgumentError("Tuple sharding is expected to have no metadata");
  }
  planner::Tuple tuple;
  for (int i = 0; i < proto.tuple_shardings_size(); ++i) {
    auto leaf = LeafFrom(proto.tuple_shardings(i));
    if (!leaf.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tuple_shardings[", i, "]: ", leaf.status().message()));
    }
    RETURN_IF_ERROR(planner::Append(*std::move(leaf), tuple));
  }
  return HloSharding{std::move(tuple), std::nullopt, {}};
}

OpSharding ToProto(const HloSharding& sharding) {
  OpSharding proto;
  std::visit(FormWriter{proto}, sharding.form);
  auto* metadata = proto.has_named_sharding() ? proto.mutable_named_sharding()->mutable_metadata()
                                              : proto.mutable_metadata();
  for (const planner::OpMetadata& entry : sharding.metadata) {
    xla::OpMetadata* added = metadata->Add();
    added->set_op_type(entry.op_type);
    added->set_op_name(entry.op_name);
  }
  if (sharding.shard_group) {
    proto.set_is_shard_group(true);
    proto.set_shard_group_id(sharding.shard_group->id);
    proto.set_shard_group_type(
        sharding.shard_group->type == ShardGroup::Type::kAs ? OpSharding::AS : OpSharding::LIKE);
  }
  return proto;
}

absl::StatusOr<HloSharding> OpShardingFromBytes(std::string_view bytes) {
  constexpr std::string_view kField = "op_sharding";
  if (bytes.size() > planner::kTextBytesMax) {
    return InvalidField(kField, bytes,
                        absl::StrCat("is longer than ", planner::kTextBytesMax, " bytes"));
  }
  OpSharding proto;
  const google::protobuf::LogSilencer quiet;  // the status says it all
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidField(kField, bytes, "does not decode as xla.OpSharding");
  }
  auto sharding = FromProto(proto);
  if (sharding.ok()) return sharding;
  return InvalidField(kField, bytes,
                      absl::StrCat("is not a sharding: ", sharding.status().message()));
}

std::string OpShardingToBytes(const HloSharding& sharding) {
  return ToProto(sharding).SerializeAsString();
}

}  // namespace remesh::proto
