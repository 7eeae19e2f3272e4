// SPDX-License-Identifier: Apache-2.0
#include "worker/local/shard_selection.h"

#include <cstdint>
#include <numeric>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/nearest.h"
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

absl::Status NoSuchArray(const std::string& field, const std::string& name,
                         const Generation& generation) {
  std::vector<std::string> names;
  for (const v1::AssignedArray& array : generation.manifest.assignment().arrays())
    names.push_back(array.name());
  const std::string& state = generation.state();
  return MakeError(absl::StatusCode::kNotFound,
                   absl::StrCat(field, ": value \"", name, "\" is not an array of ", state,
                                " on this host", KnownNames(name, names)),
                   {"SHARD_NOT_FOUND", {{"field", field}, {"value", name}, {"state", state}}});
}

// The selectors of one call, so that each selector, array and shard is looked at once: a call may
// name many, and the worker does nothing else in the meantime.
class SelectorIndex {
 public:
  SelectorIndex(const ShardSelectors& selectors, const v1::Assignment& assignment) {
    for (const v1::ShardSelector& selector : selectors) {
      Selected& of_array = by_array_[selector.array()];
      if (selector.devices().empty()) of_array.every_device = true;
      of_array.devices.insert(selector.devices().begin(), selector.devices().end());
    }
    const auto any = by_array_.find("");
    if (any != by_array_.end()) of_any_array_ = &any->second;
    for (const v1::AssignedArray& array : assignment.arrays()) {
      const auto found = by_array_.find(array.name());
      if (found != by_array_.end()) found->second.exists = true;
      of_arrays_.push_back(found == by_array_.end() ? nullptr : &found->second);
    }
    for (const v1::ShardSpec& shard : assignment.shards()) devices_here_.insert(shard.device());
  }

  absl::Status Check(const Generation& generation, const v1::ShardSelector& selector,
                     const std::string& field) const {
    if (!selector.array().empty() && !by_array_.at(selector.array()).exists)
      return NoSuchArray(field + ".array", selector.array(), generation);
    for (int i = 0; i < selector.devices_size(); ++i) {
      if (devices_here_.contains(selector.devices(i))) continue;
      return NoSuchShard(absl::StrCat(field, ".devices[", i, "]"),
                         absl::StrCat(selector.devices(i)), generation);
    }
    return absl::OkStatus();
  }

  bool Selects(const v1::ShardSpec& shard) const {
    return Has(of_any_array_, shard.device()) || Has(of_arrays_[shard.array()], shard.device());
  }

 private:
  // What the selectors of one name select; those without a name are of any array.
  struct Selected {
    bool exists = false;  // the state has an array of the name
    bool every_device = false;
    absl::flat_hash_set<int64_t> devices;
  };
  static bool Has(const Selected* selected, int64_t device) {
    return selected != nullptr && (selected->every_device || selected->devices.contains(device));
  }

  absl::flat_hash_map<absl::string_view, Selected> by_array_;
  const Selected* of_any_array_ = nullptr;
  std::vector<const Selected*> of_arrays_;  // by index; null: no selector names the array
  absl::flat_hash_set<int64_t> devices_here_;
};

// A trainer may name each array with each of its devices, and each shard alone. Beyond that,
// selectors repeat each other.
absl::Status CheckCount(const ShardSelectors& selectors, const v1::Assignment& assignment) {
  int64_t count = selectors.size();
  for (const v1::ShardSelector& selector : selectors) count += selector.devices_size();
  const int64_t most =
      kSpareSelectors + 2 * (int64_t{assignment.arrays_size()} + assignment.shards_size());
  if (count <= most) return absl::OkStatus();
  return InvalidField("shards", absl::StrCat(count, " selectors and devices"),
                      absl::StrCat("must have at most ", most, " of them for what this host has"));
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
  const v1::Assignment& assignment = generation.manifest.assignment();
  std::vector<int> selected;
  if (selectors.empty()) {
    selected.resize(assignment.shards_size());
    std::iota(selected.begin(), selected.end(), 0);
    return selected;
  }
  RETURN_IF_ERROR(CheckCount(selectors, assignment));
  const SelectorIndex index(selectors, assignment);
  for (int i = 0; i < selectors.size(); ++i) {
    RETURN_IF_ERROR(index.Check(generation, selectors[i], absl::StrCat("shards[", i, "]")));
  }
  for (int i = 0; i < assignment.shards_size(); ++i) {
    if (index.Selects(assignment.shards(i))) selected.push_back(i);
  }
  return selected;
}

v1::ShardsResponse DescribeShards(const Generation& generation, const std::vector<int>& shards) {
  const v1::Assignment& assignment = generation.manifest.assignment();
  v1::ShardsResponse response;
  response.set_generation(generation.number());
  response.set_state_uid(generation.state_uid());
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
