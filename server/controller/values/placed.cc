// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/placed.h"

#include "proto/convert/plan_proto.h"

namespace remesh::server {
namespace {

const char* NameOf(planner::MemoryKind kind) {
  switch (kind) {
    case planner::MemoryKind::kDevice:
      return "";
    case planner::MemoryKind::kPinnedHost:
      return "pinned_host";
    case planner::MemoryKind::kUnpinnedHost:
      return "unpinned_host";
  }
  return "";
}

// Writes what the layout knows of the shard.
void AddLayout(const proto::PlacedArray& array, const PlacedShard& shard, v1::ShardSpec& spec) {
  const planner::Layout& layout = *array.placement.layout;
  *spec.mutable_box() = proto::ToProto(planner::BoxesOf(layout, shard.position)[shard.box]);
  spec.set_memory_kind(NameOf(array.placement.memory_kind));
}

}  // namespace

v1::Assignment AssignmentOf(const PlacedState& placed, const std::string& host) {
  const HostPart& part = placed.hosts.at(host);
  v1::Assignment assignment;
  *assignment.mutable_arrays() = placed.arrays;
  assignment.mutable_shards()->Reserve(static_cast<int>(part.shards.size()));
  for (const PlacedShard& shard : part.shards) {
    v1::ShardSpec& spec = *assignment.add_shards();
    spec.set_array(shard.array);
    spec.set_device(part.devices.device_ids[shard.local_device]);
    spec.set_local_device(shard.local_device);
    if (placed.layout != nullptr) AddLayout(placed.layout->arrays[shard.array], shard, spec);
  }
  assignment.set_hosts(static_cast<int32_t>(placed.hosts.size()));
  return assignment;
}

size_t AssignmentBytes(const PlacedState& placed, const std::string& host) {
  const auto part = placed.hosts.find(host);
  if (part == placed.hosts.end()) return 0;
  return placed.arrays.size() * sizeof(v1::AssignedArray) +
         part->second.shards.size() * sizeof(v1::ShardSpec);
}

}  // namespace remesh::server
