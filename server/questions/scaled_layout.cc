// SPDX-License-Identifier: Apache-2.0
#include "server/questions/scaled_layout.h"

#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/sdy_text.h"
#include "planner/values/unknown_device.h"
#include "proto/convert/device_lists.h"
#include "proto/convert/plan_proto.h"
#include "proto/convert/plan_spec.h"
#include "proto/sharding/convert_sharding.h"

namespace remesh::server {

using planner::HloSharding;
using planner::NamedSharding;

namespace {

// The change of one sharding.
struct Change {
  std::string axis;
  int64_t devices = 0;  // after
};

absl::Status Inelastic(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("cannot change its size: ", std::string(what)));
}

// The index of the size that changes: the axis named by its index, or else the first size above 1.
absl::StatusOr<size_t> IndexOf(const std::string& axis, const std::vector<int64_t>& sizes) {
  if (axis.empty()) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] > 1) return i;
    }
    return Inelastic("no dimension is above 1");
  }
  size_t index = 0;
  if (!absl::SimpleAtoi(axis, &index) || index >= sizes.size()) {
    return Inelastic(absl::StrCat("elastic_axis must be 0 to ", sizes.size() - 1, ", not ", axis));
  }
  return index;
}

// Changes the size at `index` so that the product of all sizes is `devices`. Sizes may be
// unchecked.
absl::Status Resize(size_t index, int64_t devices, std::vector<int64_t>& sizes) {
  int64_t others = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i == index) continue;
    if (sizes[i] < 1 || __builtin_mul_overflow(others, sizes[i], &others))
      return Inelastic(absl::StrCat("size ", sizes[i], " of axis ", i, " is not possible"));
  }
  if (devices % others != 0) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat(devices, " devices are not a multiple of ", others,
                     ", the size of the other axes"),
        {.reason = "AXIS_DOES_NOT_DIVIDE",
         .metadata = {{"devices", absl::StrCat(devices)}, {"others", absl::StrCat(others)}}});
  }
  sizes[index] = devices / others;
  return absl::OkStatus();
}

// Whether the positions are 0, 1, 2 ... in row-major order.
bool InOrder(const planner::TileAssignment& tiles) {
  return tiles.iota() != nullptr && tiles.iota()->reshape_dims.size() == 1;
}

absl::Status Rescale(const Change& change, NamedSharding& sharding) {
  planner::Mesh& mesh = sharding.mesh;
  if (mesh.maximal.has_value()) return Inelastic("one device holds the array");
  if (mesh.axes.empty()) return absl::OkStatus();
  if (!InOrder(mesh.devices)) return Inelastic("its mesh is transposed");
  std::vector<int64_t> sizes;
  for (const planner::MeshAxis& axis : mesh.axes) sizes.push_back(axis.size);
  size_t index = 0;
  if (change.axis.empty()) {
    ASSIGN_OR_RETURN(index, IndexOf("", sizes));
  } else {
    const std::optional<int64_t> found = planner::FindAxis(mesh, change.axis);
    if (!found.has_value()) return Inelastic(absl::StrCat("its mesh has no axis ", change.axis));
    index = static_cast<size_t>(*found);
  }
  const auto has_part = [&](const std::vector<planner::AxisRef>& refs) {
    for (const planner::AxisRef& ref : refs) {
      if (ref.axis == static_cast<int64_t>(index) && ref.sub.has_value()) return true;
    }
    return false;
  };
  bool parts =
      has_part(sharding.replicated) || has_part(sharding.unreduced) || has_part(sharding.manual);
  for (const NamedSharding::Dim& dim : sharding.dims) parts = parts || has_part(dim.axes);
  if (parts) return Inelastic("it uses the axis in parts");
  RETURN_IF_ERROR(Resize(index, change.devices, sizes));
  std::vector<planner::MeshAxis> axes = mesh.axes;
  axes[index].size = sizes[index];
  ASSIGN_OR_RETURN(mesh, planner::MakeMesh(std::move(axes)));
  return absl::OkStatus();
}

absl::Status Rescale(const Change& change, planner::Tiled& tiled) {
  if (!InOrder(tiled.tiles)) return Inelastic("its tiles are transposed or listed");
  std::vector<int64_t> dims = tiled.tiles.dims();
  ASSIGN_OR_RETURN(const size_t index, IndexOf(change.axis, dims));
  RETURN_IF_ERROR(Resize(index, change.devices, dims));
  const int64_t reshape[] = {change.devices};
  const int64_t order[] = {0};
  ASSIGN_OR_RETURN(tiled.tiles, planner::TileAssignment::FromIota(dims, reshape, order));
  return absl::OkStatus();
}

absl::Status Rescale(const Change& change, HloSharding& sharding) {
  if (auto* tiled = std::get_if<planner::Tiled>(&sharding.form)) return Rescale(change, *tiled);
  if (auto* named = std::get_if<NamedSharding>(&sharding.form)) return Rescale(change, *named);
  if (std::holds_alternative<planner::Tuple>(sharding.form)) return Inelastic("it is a tuple");
  if (std::holds_alternative<planner::Maximal>(sharding.form)) {
    return Inelastic("one device holds the array");
  }
  return absl::OkStatus();  // replicated: the same on any number of devices
}

absl::Status Rescale(const Change& change, v1::DTensorSharding& dtensor) {
  std::vector<int64_t> sizes(dtensor.mesh_shape().begin(), dtensor.mesh_shape().end());
  ASSIGN_OR_RETURN(const size_t index, IndexOf(change.axis, sizes));
  RETURN_IF_ERROR(Resize(index, change.devices, sizes));
  dtensor.set_mesh_shape(static_cast<int>(index), sizes[index]);
  return absl::OkStatus();
}

absl::Status Rescale(const Change& change, v1::Sharding& sharding) {
  switch (sharding.form_case()) {
    case v1::Sharding::kHloText: {
      ASSIGN_OR_RETURN(HloSharding hlo, planner::ParseHloSharding(sharding.hlo_text()));
      RETURN_IF_ERROR(Rescale(change, hlo));
      sharding.set_hlo_text(planner::PrintHloSharding(hlo));
      return absl::OkStatus();
    }
    case v1::Sharding::kOpSharding: {
      ASSIGN_OR_RETURN(HloSharding hlo, proto::OpShardingFromBytes(sharding.op_sharding()));
      RETURN_IF_ERROR(Rescale(change, hlo));
      sharding.set_op_sharding(proto::OpShardingToBytes(hlo));
      return absl::OkStatus();
    }
    case v1::Sharding::kNamed: {
      ASSIGN_OR_RETURN(NamedSharding named, proto::FromProto(sharding.named()));
      RETURN_IF_ERROR(Rescale(change, named));
      *sharding.mutable_named() = proto::ToProto(named);
      return absl::OkStatus();
    }
    case v1::Sharding::kSdyText: {
      ASSIGN_OR_RETURN(NamedSharding named, planner::ParseSdySharding(sharding.sdy_text()));
      RETURN_IF_ERROR(Rescale(change, named));
      sharding.set_sdy_text(planner::PrintSdySharding(named));
      return absl::OkStatus();
    }
    case v1::Sharding::kDtensor:
      return Rescale(change, *sharding.mutable_dtensor());
    case v1::Sharding::kBoxes:
      return Inelastic("boxes are spelled out");
    case v1::Sharding::kRef:
    case v1::Sharding::FORM_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

// As above, with an error that names the sharding.
absl::Status RescaleOver(const std::string& list, const Change& change, const std::string& field,
                         v1::Sharding& sharding) {
  if (!sharding.devices().has_ref() || sharding.devices().ref() != list) return absl::OkStatus();
  const absl::Status status = Rescale(change, sharding);
  if (!absl::IsInvalidArgument(status)) return status;
  const absl::string_view message = status.message();
  return InvalidField(field, list, std::string(message.data(), message.size()));
}

// Drops shardings that no array refers to, because they need not scale: the target half of a
// question also has the source's shardings.
void DropUnused(v1::StateSpec& spec) {
  std::set<std::string> used;
  for (const v1::StateArray& array : spec.arrays()) {
    if (array.sharding().has_ref()) used.insert(array.sharding().ref());
  }
  auto& shardings = *spec.mutable_shardings();
  for (auto entry = shardings.begin(); entry != shardings.end();) {
    entry = used.contains(entry->first) ? std::next(entry) : shardings.erase(entry);
  }
}

// A list that no array uses may have devices of no host.
absl::Status CheckHaveHosts(const planner::DeviceList& devices, const planner::Topology& topology) {
  absl::flat_hash_set<int64_t> known;
  for (const planner::Host& host : topology.hosts)
    known.insert(host.device_ids.begin(), host.device_ids.end());
  for (const int64_t id : devices) {
    if (!known.contains(id)) return planner::UnknownDevice("devices", id, topology);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ElasticLayout> MakeElastic(v1::StateSpec spec, std::string list, std::string axis,
                                          const planner::Topology* workers,
                                          planner::Budget& budget) {
  ASSIGN_OR_RETURN(const proto::StateLayout layout, proto::ToStateLayout(spec, workers, budget));
  if (spec.topology().hosts().empty()) *spec.mutable_topology() = proto::ToProto(layout.topology);
  DropUnused(spec);
  if (list.empty() && spec.device_lists_size() == 1) list = spec.device_lists().begin()->first;
  const auto found = spec.device_lists().find(list);
  if (found == spec.device_lists().end()) {
    return InvalidField("elastic_list", list, "must be a key of the layout's device_lists");
  }
  proto::DeviceLists lists;
  ASSIGN_OR_RETURN(const planner::DeviceListPtr devices, lists.Resolve(found->second));
  RETURN_IF_ERROR(AtField("elastic_list", CheckHaveHosts(*devices, layout.topology)));
  ElasticLayout elastic{.spec = std::move(spec),
                        .list = std::move(list),
                        .axis = std::move(axis),
                        .devices = *devices};
  RETURN_IF_ERROR(ScaledTo(elastic, elastic.devices).status());
  return elastic;
}

absl::StatusOr<v1::StateSpec> ScaledTo(const ElasticLayout& layout,
                                       const std::vector<int64_t>& devices) {
  v1::StateSpec scaled = layout.spec;
  v1::DeviceList& list = (*scaled.mutable_device_lists())[layout.list];
  list.Clear();
  *list.mutable_ids() = {devices.begin(), devices.end()};
  const Change change{.axis = layout.axis, .devices = static_cast<int64_t>(devices.size())};
  for (auto& [key, sharding] : *scaled.mutable_shardings()) {
    RETURN_IF_ERROR(
        RescaleOver(layout.list, change, absl::StrCat("shardings[", key, "]"), sharding));
  }
  for (int i = 0; i < scaled.arrays_size(); ++i) {
    RETURN_IF_ERROR(RescaleOver(layout.list, change, absl::StrCat("arrays[", i, "].sharding"),
                                *scaled.mutable_arrays(i)->mutable_sharding()));
  }
  return scaled;
}

}  // namespace remesh::server
