// SPDX-License-Identifier: Apache-2.0
#include "worker/local/shard_selection.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "worker/store/box_message.h"

namespace remesh::worker {
namespace {

absl::Status NoSuchShard(const std::string& field, const std::string& value,
                         const Generation& generation) {
  return MakeError(
      absl::StatusCode::kNotFound,
      absl::StrCat(field, ": value \"", value, "\" names no shard that this host has of ",
                   generation.state()),
      {"SHARD_NOT_FOUND", {{"field", field}, {"value", value}, {"state", generation.state()}}});
}

bool HasArray(const v1::Assignment& assignment, const std::string& name) {
  return std::any_of(assignment.arrays().begin(), assignment.arrays().end(),
                     [&](const v1::AssignedArray& array) { return array.name() == name; });
}

bool HasDevice(const v1::Assignment& assignment, int64_t device) {
  return std::any_of(assignment.shards().begin(), assignment.shards().end(),
                     [&](const v1::ShardSpec& shard) { return shard.device() == device; });
}

absl::Status CheckSelector(const Generation& generation, const v1::ShardSelector& selector,
                           const std::string& field) {
  const v1::Assignment& assignment = generation.manifest.assignment();
  if (!selector.array().empty() && !HasArray(assignment, selector.array())) {
    return NoSuchShard(field + ".array", selector.array(), generation);
  }
  for (int i = 0; i < selector.devices_size(); ++i) {
    if (HasDevice(assignment, selector.devices(i))) continue;
    return NoSuchShard(absl::StrCat(field, ".devices[", i, "]"), absl::StrCat(selector.devices(i)),
                       generation);
  }
  return absl::OkStatus();
}

bool Matches(const v1::ShardSelector& selector, const std::string& array, int64_t device) {
  if (!selector.array().empty() && selector.array() != array) return false;
  return selector.devices().empty() ||
         std::find(selector.devices().begin(), selector.devices().end(), device) !=
             selector.devices().end();
}

void DescribeMemory(const Generation& generation, int index, v1::Shard& shard) {
  const DeviceSegment* const segment = generation.SegmentOf(index);
  if (segment == nullptr) return shard.set_path(generation.PathOf(index));
  v1::DeviceMemory& memory = *shard.mutable_device_memory();
  memory.set_token(segment->token);
  memory.set_bytes(generation.places.files[generation.places.shards[index].file].bytes);
  memory.set_kind(segment->kind);
  memory.set_device_uuid(segment->device_uuid);
}

}  // namespace

absl::StatusOr<std::vector<int>> SelectShards(const Generation& generation,
                                              const ShardSelectors& selectors) {
  for (int i = 0; i < selectors.size(); ++i) {
    RETURN_IF_ERROR(CheckSelector(generation, selectors[i], absl::StrCat("shards[", i, "]")));
  }
  const v1::Assignment& assignment = generation.manifest.assignment();
  std::vector<int> selected;
  for (int i = 0; i < assignment.shards_size(); ++i) {
    const v1::ShardSpec& shard = assignment.shards(i);
    const std::string& array = assignment.arrays(shard.array()).name();
    const bool any =
        std::any_of(selectors.begin(), selectors.end(), [&](const v1::ShardSelector& selector) {
          return Matches(selector, array, shard.device());
        });
    if (selectors.empty() || any) selected.push_back(i);
  }
  return selected;
}

v1::ShardsResponse DescribeShards(const Generation& generation, const std::vector<int>& shards) {
  const v1::Assignment& assignment = generation.manifest.assignment();
  v1::ShardsResponse response;
  response.set_generation(generation.number());
  for (const int i : shards) {
    const v1::ShardSpec& spec = assignment.shards(i);
    const v1::AssignedArray& array = assignment.arrays(spec.array());
    const ShardPlaces::Shard& place = generation.places.shards[i];
    v1::Shard& shard = *response.add_shards();
    shard.set_array(array.name());
    shard.set_device(spec.device());
    *shard.mutable_box() = spec.box();
    shard.set_element_type(array.element_type());
    DescribeMemory(generation, i, shard);
    shard.set_offset(place.offset);
    shard.set_bytes(place.bytes);
    shard.mutable_strides()->Resize(place.box.rank(), 1);
    for (int d = place.box.rank() - 2; d >= 0; --d) {
      shard.set_strides(d, shard.strides(d + 1) * place.box.dims[d + 1].size());
    }
    shard.set_sealed(generation.manifest.sealed(i));
    shard.set_memory_kind(spec.memory_kind());
    *shard.mutable_shape() = array.shape();
  }
  return response;
}

}  // namespace remesh::worker
