// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/placed.h"

#include <algorithm>

#include "proto/convert/plan_proto.h"
#include "proto/program/shard_columns.h"
#include "server/controller/values/assignment_parts.h"

namespace remesh::server {
namespace {

// Far from where an assignment is cut into parts: one that is cut has not all arrays beside its
// shards, as columns need.
constexpr size_t kColumnsBytesMax = kAssignmentBytesMax / 2;

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

v1::Assignment WithoutShards(const PlacedState& placed) {
  v1::Assignment assignment;
  *assignment.mutable_arrays() = placed.arrays;
  assignment.set_hosts(static_cast<int32_t>(placed.hosts.size()));
  return assignment;
}

// Whether columns can say the shards' boxes, which are read by the dimensions of their arrays.
bool FitColumns(const PlacedState& placed, const HostPart& part) {
  if (placed.layout == nullptr || part.shards.size() > proto::kColumnShardsMax) return false;
  return std::equal(placed.arrays.begin(), placed.arrays.end(), placed.layout->arrays.begin(),
                    placed.layout->arrays.end(),
                    [](const v1::AssignedArray& named, const proto::PlacedArray& array) {
                      return static_cast<size_t>(named.shape_size()) ==
                             array.placement.layout->shape.size();
                    });
}

}  // namespace

v1::Assignment AssignmentOf(const PlacedState& placed, const std::string& host) {
  const HostPart& part = placed.hosts.at(host);
  v1::Assignment assignment = WithoutShards(placed);
  assignment.mutable_shards()->Reserve(static_cast<int>(part.shards.size()));
  for (const PlacedShard& shard : part.shards) {
    v1::ShardSpec& spec = *assignment.add_shards();
    spec.set_array(shard.array);
    spec.set_device(part.devices.device_ids[shard.local_device]);
    spec.set_local_device(shard.local_device);
    if (placed.layout != nullptr) AddLayout(placed.layout->arrays[shard.array], shard, spec);
  }
  return assignment;
}

v1::Assignment AssignmentInColumns(const PlacedState& placed, const std::string& host) {
  const HostPart& part = placed.hosts.at(host);
  if (!FitColumns(placed, part)) return AssignmentOf(placed, host);
  v1::Assignment assignment = WithoutShards(placed);
  if (assignment.ByteSizeLong() > kColumnsBytesMax) return AssignmentOf(placed, host);
  proto::ColumnsWriter columns(*assignment.mutable_columns());
  columns.Reserve(static_cast<int>(part.shards.size()));
  for (const PlacedShard& shard : part.shards) {
    const planner::Placement& placement = placed.layout->arrays[shard.array].placement;
    columns.Add(shard.array, part.devices.device_ids[shard.local_device], shard.local_device,
                NameOf(placement.memory_kind));
    const planner::Box& box = planner::BoxesOf(*placement.layout, shard.position)[shard.box];
    for (const planner::Interval& range : box.dims) columns.AddRange(range.lo, range.hi);
  }
  columns.Finish();
  if (assignment.ByteSizeLong() <= kColumnsBytesMax) return assignment;
  assignment.Clear();  // before its like is made
  return AssignmentOf(placed, host);
}

size_t AssignmentBytes(const PlacedState& placed, const std::string& host) {
  const auto part = placed.hosts.find(host);
  if (part == placed.hosts.end()) return 0;
  return placed.arrays.size() * sizeof(v1::AssignedArray) +
         part->second.shards.size() * sizeof(v1::ShardSpec);
}

}  // namespace remesh::server
