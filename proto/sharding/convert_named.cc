// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"
#include "proto/sharding/convert_sharding.h"

namespace remesh::proto {

using planner::AxisRef;
using planner::NamedSharding;

namespace {

using AxisRefs = google::protobuf::RepeatedPtrField<xla::AxisRefProto>;

absl::StatusOr<planner::Mesh> MeshFrom(const xla::MeshProto& proto) {
  if (proto.axes_size() > planner::kTileRankMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh has ", proto.axes_size(), " axes, more than ", planner::kTileRankMax));
  }
  std::vector<planner::MeshAxis> axes;
  for (const auto& axis : proto.axes()) axes.push_back({axis.name(), axis.size()});
  std::vector<int64_t> ids(proto.device_ids().begin(), proto.device_ids().end());
  if (proto.has_iota_transform()) {
    if (!ids.empty())
      return absl::InvalidArgumentError("mesh device_ids and iota_transform exclude each other");
    const auto& iota = proto.iota_transform();
    return planner::MakeIotaMesh(std::move(axes), iota.reshape_dims(), iota.transpose_perm());
  }
  if (axes.empty() && ids.size() == 1) return planner::MakeMaximalMesh(ids[0]);
  return planner::MakeMesh(std::move(axes), std::move(ids));
}

std::vector<AxisRef> RefsFrom(const AxisRefs& protos) {
  std::vector<AxisRef> refs;
  for (const auto& proto : protos) {
    AxisRef ref{proto.mesh_axis_index(), std::nullopt};
    if (proto.has_sub_axis_info()) {
      ref.sub = AxisRef::Sub{proto.sub_axis_info().pre_size(), proto.sub_axis_info().size()};
    }
    refs.push_back(ref);
  }
  return refs;
}

void WriteMesh(const planner::Mesh& mesh, xla::MeshProto& proto) {
  for (const planner::MeshAxis& axis : mesh.axes) {
    auto* added = proto.add_axes();
    added->set_name(axis.name);
    added->set_size(axis.size);
  }
  if (mesh.maximal) {
    proto.add_device_ids(*mesh.maximal);
    return;
  }
  const planner::TileAssignment::Iota* iota = mesh.devices.iota();
  if (iota == nullptr) {
    const std::vector<int64_t> positions = mesh.devices.Positions();
    proto.mutable_device_ids()->Add(positions.begin(), positions.end());
  } else if (iota->reshape_dims.size() > 1) {
    auto* transform = proto.mutable_iota_transform();
    transform->mutable_reshape_dims()->Add(iota->reshape_dims.begin(), iota->reshape_dims.end());
    transform->mutable_transpose_perm()->Add(iota->transpose_perm.begin(),
                                             iota->transpose_perm.end());
  }
}

void WriteRefs(const std::vector<AxisRef>& refs, AxisRefs* protos) {
  for (const AxisRef& ref : refs) {
    xla::AxisRefProto* proto = protos->Add();
    proto->set_mesh_axis_index(ref.axis);
    if (!ref.sub) continue;
    proto->mutable_sub_axis_info()->set_pre_size(ref.sub->pre_size);
    proto->mutable_sub_axis_info()->set_size(ref.sub->size);
  }
}

}  // namespace

absl::StatusOr<NamedSharding> FromProto(const xla::NamedShardingProto& proto) {
  NamedSharding sharding;
  ASSIGN_OR_RETURN(sharding.mesh, MeshFrom(proto.mesh()));
  for (const auto& dim : proto.dim_shardings())
    sharding.dims.push_back({RefsFrom(dim.axes()), !dim.is_closed()});
  sharding.replicated = RefsFrom(proto.replicated_axes());
  sharding.unreduced = RefsFrom(proto.unreduced_axes());
  sharding.manual = RefsFrom(proto.manual_axes());
  if (!xla::NamedShardingProto::ReductionOp_IsValid(proto.reduction_op())) {
    return absl::InvalidArgumentError(
        absl::StrCat("reduction_op ", static_cast<int>(proto.reduction_op()), " is not known"));
  }
  sharding.reduction = static_cast<planner::ReductionOp>(proto.reduction_op());
  return planner::Canonicalized(std::move(sharding));
}

xla::NamedShardingProto ToProto(const NamedSharding& sharding) {
  xla::NamedShardingProto proto;
  WriteMesh(sharding.mesh, *proto.mutable_mesh());
  for (const NamedSharding::Dim& dim : sharding.dims) {
    auto* added = proto.add_dim_shardings();
    WriteRefs(dim.axes, added->mutable_axes());
    added->set_is_closed(!dim.open);
  }
  WriteRefs(sharding.replicated, proto.mutable_replicated_axes());
  WriteRefs(sharding.unreduced, proto.mutable_unreduced_axes());
  WriteRefs(sharding.manual, proto.mutable_manual_axes());
  proto.set_reduction_op(static_cast<xla::NamedShardingProto::ReductionOp>(sharding.reduction));
  return proto;
}

}  // namespace remesh::proto
