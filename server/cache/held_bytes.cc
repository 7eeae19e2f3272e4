// SPDX-License-Identifier: Apache-2.0
#include "server/cache/held_bytes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace remesh::server {
namespace {

// glibc: a header of 8 bytes, rounded up to 16, at least 32.
int64_t Block(size_t bytes) {
  if (bytes == 0) return 0;
  return static_cast<int64_t>(std::max<size_t>((bytes + 8 + 15) / 16 * 16, 32));
}

template <typename T>
int64_t Held(const std::vector<T>& vector) {
  return Block(vector.capacity() * sizeof(T));
}

int64_t Held(const std::string& text) {
  return text.capacity() < sizeof(std::string) / 2 ? 0 : Block(text.capacity() + 1);
}

int64_t Held(const std::vector<std::string>& texts) {
  int64_t bytes = Block(texts.capacity() * sizeof(std::string));
  for (const std::string& text : texts) bytes += Held(text);
  return bytes;
}

template <typename T, size_t kInlined>
int64_t Held(const absl::InlinedVector<T, kInlined>& vector) {
  return vector.capacity() <= kInlined ? 0 : Block(vector.capacity() * sizeof(T));
}

int64_t Held(const planner::Layout& layout) {
  int64_t bytes = Block(sizeof(planner::Layout) + 16) + Held(layout.shape) +
                  Block(layout.tiles.size() * sizeof(planner::Tile)) + Held(layout.tile_of) +
                  Held(layout.positions) + Held(layout.first_position) + Held(layout.subgroup_kind);
  for (const planner::Tile& tile : layout.tiles) {
    bytes += Held(tile.boxes);
    for (const planner::Box& box : tile.boxes) bytes += Held(box.dims);
  }
  if (!layout.partitions.has_value()) return bytes;
  bytes += Held(*layout.partitions);
  for (const planner::DimPartition& partition : *layout.partitions) {
    bytes += Held(partition.cuts) + Held(partition.part_of);
  }
  return bytes;
}

int64_t Held(const planner::Topology& topology) {
  int64_t bytes = Held(topology.hosts) + Held(topology.domains);
  for (const planner::Host& host : topology.hosts) {
    bytes += Held(host.name) + Held(host.parent) + Held(host.device_ids);
  }
  for (const planner::Domain& domain : topology.domains)
    bytes += Held(domain.name) + Held(domain.parent);
  return bytes;
}

}  // namespace

int64_t HeldBytes(const planner::ReshardRequest& request) {
  int64_t bytes = Held(request.topology) + Held(request.arrays) + Held(request.fallbacks) +
                  Held(request.options.lost_device_ids);
  absl::flat_hash_set<const void*> seen;
  for (const planner::ArraySpec& array : request.arrays) {
    bytes += Held(array.name) + Held(array.shape);
    for (const planner::Placement* place : {&array.source, &array.target}) {
      if (seen.insert(place->layout.get()).second) bytes += Held(*place->layout);
      if (seen.insert(place->devices.get()).second) {
        bytes += Block(sizeof(planner::DeviceList) + 16) + Held(*place->devices);
      }
    }
  }
  return bytes;
}

int64_t HeldBytes(const CachedPlan& cached) {
  return Block(sizeof(CachedPlan) + 16) + Held(cached.request.fingerprint) + Held(cached.digest) +
         HeldBytes(cached.request.request) + cached.plan.memory_bytes();
}

int64_t HeldBytes(const planner::Binding& binding) {
  return Held(binding.device_ids) + Held(binding.array_indices) + Held(binding.host_names) +
         Held(binding.host_indices) + Held(binding.domain_names) + Held(binding.array_names);
}

}  // namespace remesh::server
