// SPDX-License-Identifier: Apache-2.0
#include "worker/store/shard_places.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/values/element_type.h"
#include "worker/device/shard_view.h"
#include "worker/store/box_message.h"

namespace remesh::worker {
namespace {

constexpr char kDeviceKind[] = "device";
constexpr int64_t kBytesMax = int64_t{1} << 62;

struct Array {
  std::vector<int64_t> shape;
  int bits = 8;
};

absl::StatusOr<Array> ReadArray(const v1::AssignedArray& message) {
  if (message.name().empty()) return InvalidField("name", "", "must not be empty");
  ASSIGN_OR_RETURN(const planner::ElementType type,
                   planner::ParseElementType(message.element_type()));
  Array array{{message.shape().begin(), message.shape().end()}, planner::BitWidth(type)};
  RETURN_IF_ERROR(planner::ValidateShape(array.shape, array.bits));
  return array;
}

absl::StatusOr<std::string> FileName(const v1::ShardSpec& shard, int devices) {
  if (shard.local_device() < 0 || shard.local_device() >= devices) {
    return InvalidField("local_device", absl::StrCat(shard.local_device()),
                        absl::StrCat("must be in [0, ", devices, ")"));
  }
  const std::string& kind = shard.memory_kind();
  if (!kind.empty() && kind != kDeviceKind && kind != "pinned_host" && kind != "unpinned_host") {
    return InvalidField("memory_kind", kind, "must be device, pinned_host or unpinned_host");
  }
  return absl::StrCat("d", shard.local_device(), ".", kind.empty() ? kDeviceKind : kind);
}

absl::StatusOr<ShardPlaces::Shard> ReadShard(const v1::ShardSpec& message,
                                             const std::vector<Array>& arrays) {
  if (message.array() < 0 || static_cast<size_t>(message.array()) >= arrays.size()) {
    return InvalidField("array", absl::StrCat(message.array()),
                        absl::StrCat("must be in [0, ", arrays.size(), ")"));
  }
  const Array& array = arrays[message.array()];
  ShardPlaces::Shard shard;
  auto box = BoxInArray(message.box(), array.shape);
  if (!box.ok()) return AtField("box", box.status());
  shard.box = *std::move(box);
  shard.bits_per_element = array.bits;
  shard.bytes = PackedBytes(shard.box, array.bits);
  return shard;
}

int64_t Aligned(int64_t bytes) { return planner::RoundedUp(bytes, kShardAlignment); }

}  // namespace

absl::StatusOr<ShardPlaces> PlaceShards(const v1::Assignment& assignment, int devices) {
  if (assignment.state().empty()) return InvalidField("state", "", "must not be empty");
  if (assignment.generation() < 1) {
    return InvalidField("generation", absl::StrCat(assignment.generation()), "must be >= 1");
  }
  std::vector<Array> arrays;
  for (int i = 0; i < assignment.arrays_size(); ++i) {
    auto array = ReadArray(assignment.arrays(i));
    if (!array.ok()) return AtField(absl::StrCat("arrays[", i, "]"), array.status());
    arrays.push_back(*std::move(array));
  }
  ShardPlaces places;
  std::map<std::string, int> file_of;
  for (int i = 0; i < assignment.shards_size(); ++i) {
    const std::string path = absl::StrCat("shards[", i, "]");
    auto name = FileName(assignment.shards(i), devices);
    if (!name.ok()) return AtField(path, name.status());
    auto shard = ReadShard(assignment.shards(i), arrays);
    if (!shard.ok()) return AtField(path, shard.status());
    const auto [it, added] = file_of.try_emplace(*name, places.files.size());
    if (added) {
      const v1::ShardSpec& first = assignment.shards(i);
      const bool of_device = first.memory_kind().empty() || first.memory_kind() == kDeviceKind;
      places.files.push_back({*name, 0, first.local_device(), of_device});
    }
    ShardPlaces::File& file = places.files[it->second];
    shard->file = it->second;
    shard->offset = file.bytes;
    if (shard->bytes > kBytesMax - kShardAlignment - places.file_bytes) {
      return InvalidField(path, absl::StrCat(shard->bytes),
                          "exceeds 2^62 bytes with those before it");
    }
    file.bytes += Aligned(shard->bytes);
    places.file_bytes += Aligned(shard->bytes);
    places.shard_bytes += shard->bytes;
    places.shards.push_back(*std::move(shard));
  }
  return places;
}

}  // namespace remesh::worker
