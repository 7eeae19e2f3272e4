// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/form.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/limits.h"
#include "planner/sharding/sdy_text.h"
#include "planner/sharding/to_layout.h"
#include "proto/convert/plan_proto.h"
#include "proto/sharding/convert_sharding.h"

namespace remesh::proto {

using planner::DTensorSharding;
using planner::HloSharding;

namespace {

// `status` with the field as a whole, if it names no field: some front ends say only what is wrong.
absl::Status WholeField(const std::string& field, const std::string& value,
                        const absl::Status& status) {
  if (status.ok() || GetErrorInfo(status).metadata.contains("field")) return status;
  return InvalidField(field, value, absl::StrCat("is not valid: ", status.message()));
}

absl::StatusOr<Form> ParseNamed(const xla::NamedShardingProto& named) {
  auto value = FromProto(named);
  RETURN_IF_ERROR(WholeField("named", named.ShortDebugString(), value.status()));
  return Form(*std::move(value));
}

absl::StatusOr<DTensorSharding::Placement> ToPlacement(const v1::Placement& placement) {
  switch (placement.kind_case()) {
    case v1::Placement::kShard:
      return DTensorSharding::Shard{placement.shard().dim()};
    case v1::Placement::kReplicate:
      return DTensorSharding::Replicate{};
    case v1::Placement::kStridedShard:
      return DTensorSharding::StridedShard{placement.strided_shard().dim(),
                                           placement.strided_shard().split_factor()};
    case v1::Placement::kPartial:
      return DTensorSharding::Partial{placement.partial().reduce_op()};
    default:
      return InvalidField("kind", "",
                          "must be set: write Shard(0), Replicate(), _StridedShard(0, 2) or "
                          "Partial(sum)");
  }
}

absl::StatusOr<Form> ParseDTensor(const v1::DTensorSharding& dtensor) {
  DTensorSharding value{.mesh_shape = {dtensor.mesh_shape().begin(), dtensor.mesh_shape().end()}};
  for (int i = 0; i < dtensor.placements_size(); ++i) {
    auto placement = ToPlacement(dtensor.placements(i));
    RETURN_IF_ERROR(AtField(absl::StrCat("dtensor.placements[", i, "]"), placement.status()));
    value.placements.push_back(*std::move(placement));
  }
  return Form(std::move(value));
}

// The layout of an array, of each form: a form without its own does not compile.
absl::StatusOr<planner::Layout> LayOut(const HloSharding& sharding, const planner::Shape& shape,
                                       int32_t device_count) {
  return ToLayout(sharding, shape, device_count);
}

absl::StatusOr<planner::Layout> LayOut(const planner::NamedSharding& sharding,
                                       const planner::Shape& shape, int32_t device_count) {
  return ToLayout(sharding, shape, device_count);
}

absl::StatusOr<planner::Layout> LayOut(const BoxForm& form, const planner::Shape& shape, int32_t) {
  auto layout = planner::MakeBoxLayout(shape, form.boxes);
  RETURN_IF_ERROR(AtField("boxes.devices", layout.status()));
  return layout;
}

// A single placement without a mesh is over all devices.
DTensorSharding OnMesh(DTensorSharding sharding, int32_t device_count) {
  if (sharding.mesh_shape.empty() && sharding.placements.size() == 1)
    sharding.mesh_shape = {device_count};
  return sharding;
}

absl::StatusOr<planner::Layout> LayOut(const DTensorSharding& sharding, const planner::Shape& shape,
                                       int32_t device_count) {
  auto layout = ToLayout(OnMesh(sharding, device_count), shape, device_count);
  const std::string field = GetErrorInfo(layout.status()).metadata["field"];
  if (layout.ok() || field == "devices" || field == "shape") return layout;
  return AtField("dtensor", layout.status());
}

absl::StatusOr<Form> ParseBoxes(const v1::BoxSharding& boxes) {
  BoxForm form;
  absl::flat_hash_set<int64_t> seen;
  if (boxes.devices().empty()) return InvalidField("boxes.devices", "", "must name a device");
  if (boxes.devices_size() > planner::kPositionsMax) {
    return InvalidField("boxes.devices", absl::StrCat(boxes.devices_size(), " devices"),
                        absl::StrCat("must be at most ", planner::kPositionsMax));
  }
  for (int i = 0; i < boxes.devices_size(); ++i) {
    const v1::DeviceBoxes& device = boxes.devices(i);
    const std::string field = absl::StrCat("boxes.devices[", i, "]"),
                      id = absl::StrCat(device.device());
    if (device.device() < 0) return InvalidField(field + ".device", id, "must be >= 0");
    if (!seen.insert(device.device()).second)
      return InvalidField(field + ".device", id, "is listed more than once: list each device once");
    form.device_ids.push_back(device.device());
    std::vector<planner::Box>& values = form.boxes.emplace_back();
    for (int j = 0; j < device.boxes_size(); ++j) {
      auto box = ToBox(device.boxes(j));
      RETURN_IF_ERROR(AtField(absl::StrCat(field, ".boxes[", j, "]"), box.status()));
      values.push_back(*std::move(box));
    }
  }
  return Form(std::move(form));
}

}  // namespace

absl::StatusOr<Form> ParseForm(const v1::Sharding& sharding) {
  switch (sharding.form_case()) {
    case v1::Sharding::kOpSharding: {
      ASSIGN_OR_RETURN(HloSharding value, OpShardingFromBytes(sharding.op_sharding()));
      return Form(std::move(value));
    }
    case v1::Sharding::kHloText: {
      ASSIGN_OR_RETURN(HloSharding value, planner::ParseHloSharding(sharding.hlo_text()));
      return Form(std::move(value));
    }
    case v1::Sharding::kNamed:
      return ParseNamed(sharding.named());
    case v1::Sharding::kDtensor:
      return ParseDTensor(sharding.dtensor());
    case v1::Sharding::kBoxes:
      return ParseBoxes(sharding.boxes());
    case v1::Sharding::kSdyText: {
      ASSIGN_OR_RETURN(planner::NamedSharding value,
                       planner::ParseSdySharding(sharding.sdy_text()));
      return Form(std::move(value));
    }
    case v1::Sharding::kRef:
    case v1::Sharding::FORM_NOT_SET:
      break;
  }
  return InvalidField("form", FormName(sharding), "must be set and no ref");
}

std::string FormName(const v1::Sharding& sharding) {
  if (sharding.form_case() == v1::Sharding::FORM_NOT_SET) return "";
  return v1::Sharding::descriptor()->FindFieldByNumber(sharding.form_case())->name();
}

absl::StatusOr<planner::Layout> ToLayout(const Form& form, const planner::Shape& shape,
                                         int32_t device_count) {
  const auto lay_out = [&](const auto& value) { return LayOut(value, shape, device_count); };
  return std::visit(lay_out, form);
}

}  // namespace remesh::proto
