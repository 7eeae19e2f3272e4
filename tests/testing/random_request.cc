// SPDX-License-Identifier: Apache-2.0
#include "tests/testing/random_request.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"

namespace remesh::testing {

using planner::ArraySpec;
using planner::Box;
using planner::DeviceListPtr;
using planner::DimPartition;
using planner::ElementType;
using planner::Host;
using planner::Layout;
using planner::ReshardRequest;
using planner::Shape;

namespace {

constexpr ElementType kTypes[] = {
    ElementType::kBf16,     ElementType::kF32,  ElementType::kU8,       ElementType::kS4,
    ElementType::kU1,       ElementType::kC128, ElementType::kF64,      ElementType::kS2,
    ElementType::kF8E4M3Fn, ElementType::kPred, ElementType::kF4E2M1Fn, ElementType::kF6E2M3Fn};

bool OneIn(Random& random, int64_t n) { return Uniform(random, 1, n) == 1; }

template <typename T>
void Shuffle(Random& random, std::vector<T>& items) {
  for (size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[Uniform(random, 0, static_cast<int64_t>(i) - 1)]);
  }
}

planner::Topology RandomTopology(Random& random, const RandomRequestOptions& options) {
  planner::Topology topology;
  const bool racks = options.racks && OneIn(random, 3);
  if (racks) {
    const int64_t count = Uniform(random, 1, options.racks_max);
    for (int64_t i = 0; i < count; ++i) {
      const bool nested = i > 0 && OneIn(random, 3);
      topology.domains.push_back(
          {.name = "rack" + std::to_string(i),
           .parent = nested ? "rack" + std::to_string(Uniform(random, 0, i - 1)) : "",
           .egress_bytes_per_second = static_cast<double>(Uniform(random, 1, 20)) * 1e9,
           .ingress_bytes_per_second = static_cast<double>(Uniform(random, 1, 20)) * 1e9});
    }
  }
  std::vector<int64_t> ids(options.hosts_max * options.devices_per_host_max);
  std::iota(ids.begin(), ids.end(), Uniform(random, 0, 1000));
  if (OneIn(random, 2)) Shuffle(random, ids);
  const int64_t hosts = Uniform(random, 1, options.hosts_max);
  const bool alike = OneIn(random, 2);
  const int64_t devices = Uniform(random, 1, options.devices_per_host_max);
  const int32_t nics = static_cast<int32_t>(Uniform(random, 1, 4));
  size_t next = 0;
  for (int64_t h = 0; h < hosts; ++h) {
    Host host{.name = "host" + std::to_string(h),
              .nic_bytes_per_second = 1e9,
              .nics = nics,
              .fabric_bytes_per_second = 1e11};
    const int64_t n = alike ? devices : Uniform(random, 1, options.devices_per_host_max);
    for (int64_t i = 0; i < n; ++i) host.device_ids.push_back(ids[next++]);
    if (!alike) host.nics = static_cast<int32_t>(Uniform(random, 1, 4));
    if (!alike && options.unequal_capacities) {
      host.nic_bytes_per_second = static_cast<double>(Uniform(random, 1, 5)) * 1e9;
    }
    if (racks && !OneIn(random, 4)) {
      host.parent =
          topology.domains[Uniform(random, 0, static_cast<int64_t>(topology.domains.size()) - 1)]
              .name;
    }
    topology.hosts.push_back(std::move(host));
  }
  return topology;
}

DeviceListPtr RandomDevices(Random& random, const std::vector<int64_t>& all) {
  std::vector<int64_t> ids = all;
  if (!OneIn(random, 3)) Shuffle(random, ids);
  const int64_t begin =
      OneIn(random, 2) ? 0 : Uniform(random, 0, static_cast<int64_t>(ids.size()) - 1);
  const int64_t end = OneIn(random, 3)
                          ? static_cast<int64_t>(ids.size())
                          : Uniform(random, begin + 1, static_cast<int64_t>(ids.size()));
  return std::make_shared<const planner::DeviceList>(ids.begin() + begin, ids.begin() + end);
}

Shape RandomShape(Random& random, const RandomRequestOptions& options) {
  Shape shape;
  const int64_t rank = Uniform(random, 0, options.rank_max);
  int64_t elements = 1;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t most = std::max<int64_t>(1, options.elements_max / elements);
    const int64_t extent = OneIn(random, 40) ? 0 : Uniform(random, 1, std::min<int64_t>(most, 40));
    shape.push_back(extent);
    elements *= std::max<int64_t>(extent, 1);
  }
  return shape;
}

// Tiles, chunks at random cuts, or intervals dealt out in turn (as nested shardings of one
// dimension do).
DimPartition RandomPartition(Random& random, int64_t extent, int64_t parts) {
  if (extent == 0 || OneIn(random, 2)) return planner::TilePartition(extent, parts);
  const bool dealt = OneIn(random, 2);
  std::vector<int64_t> cuts = {0, extent};
  const int64_t wanted = dealt ? parts * 2 : parts;
  for (int64_t i = 1; i < wanted; ++i) cuts.push_back(Uniform(random, 0, extent));
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  DimPartition partition{.parts = parts, .cuts = cuts, .part_of = {}};
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const int64_t part = static_cast<int64_t>(i) % parts;
    partition.part_of.push_back(part);
  }
  return partition;
}

struct Separable {
  std::vector<DimPartition> partitions;
  std::vector<int64_t> numbers;
};

// Tiles of random partitions, dealt to `device_count` positions in random order with replicas for
// the rest.
Separable RandomSeparable(Random& random, const Shape& shape, int32_t device_count) {
  Separable result;
  int64_t tiles = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t most = device_count / tiles;
    const int64_t parts = OneIn(random, 3) ? 1 : Uniform(random, 1, std::max<int64_t>(1, most));
    result.partitions.push_back(RandomPartition(random, shape[d], parts));
    tiles *= parts;
  }
  for (int32_t i = 0; i < device_count; ++i) result.numbers.push_back(i % tiles);
  if (OneIn(random, 2)) Shuffle(random, result.numbers);
  return result;
}

// Halves the array at random until there are enough boxes; deals them out, some of them twice.
Layout RandomBoxLayout(Random& random, const Shape& shape, int32_t device_count) {
  std::vector<Box> boxes = {Box::Whole(shape)};
  const int64_t wanted = Uniform(random, 1, device_count + 3);
  for (int64_t tries = 0; tries < 4 * wanted && static_cast<int64_t>(boxes.size()) < wanted;
       ++tries) {
    Box& box = boxes[Uniform(random, 0, static_cast<int64_t>(boxes.size()) - 1)];
    if (box.rank() == 0) break;
    const int64_t d = Uniform(random, 0, box.rank() - 1);
    if (box.dims[d].size() < 2) continue;
    Box upper = box;
    upper.dims[d].lo = Uniform(random, box.dims[d].lo + 1, box.dims[d].hi - 1);
    box.dims[d].hi = upper.dims[d].lo;
    boxes.push_back(std::move(upper));
  }
  std::vector<std::vector<Box>> of_position(device_count);
  for (const Box& box : boxes) {
    const int64_t first = Uniform(random, 0, device_count - 1);
    of_position[first].push_back(box);
    const int64_t second = Uniform(random, 0, device_count - 1);
    if (second != first && OneIn(random, 3)) of_position[second].push_back(box);
  }
  auto layout = planner::MakeBoxLayout(shape, of_position);
  REMESH_CHECK(layout.ok());
  return *std::move(layout);
}

// Source and target layouts whose device lists are each dealt to `groups` subgroups, every one of
// which covers the array.
void MakeSubgroups(Random& random, const ArraySpec& array, int64_t groups,
                   planner::Placement& placement) {
  const int32_t count = static_cast<int32_t>(placement.devices->size());
  const int32_t each = count / static_cast<int32_t>(groups);
  Separable separable = RandomSeparable(random, array.shape, each);
  std::vector<int64_t> numbers;
  std::vector<int64_t> subgroups;
  for (int32_t i = 0; i < each * groups; ++i) {
    numbers.push_back(separable.numbers[i % each]);
    subgroups.push_back(i / each);
  }
  placement.devices = std::make_shared<const planner::DeviceList>(
      placement.devices->begin(), placement.devices->begin() + each * groups);
  placement.layout = std::make_shared<const Layout>(
      planner::MakeSeparableLayout(array.shape, separable.partitions, numbers, subgroups,
                                   "manual(" + std::to_string(groups) + ")"));
}

void PlaceArray(Random& random, const RandomRequestOptions& options,
                const std::vector<DeviceListPtr>& lists, ArraySpec& array) {
  const auto any_list = [&] {
    return lists[Uniform(random, 0, static_cast<int64_t>(lists.size()) - 1)];
  };
  array.source.devices = any_list();
  array.target.devices = any_list();
  const int64_t smaller =
      static_cast<int64_t>(std::min(array.source.devices->size(), array.target.devices->size()));
  if (options.subgroups && smaller >= 2 && OneIn(random, 10)) {
    const int64_t groups = Uniform(random, 2, std::min<int64_t>(3, smaller));
    MakeSubgroups(random, array, groups, array.source);
    MakeSubgroups(random, array, groups, array.target);
  } else {
    for (planner::Placement* p : {&array.source, &array.target}) {
      p->layout = RandomLayout(random, array.shape, static_cast<int32_t>(p->devices->size()),
                               options.boxes);
    }
  }
  if (options.memory_kinds && OneIn(random, 6))
    array.target.memory_kind = planner::MemoryKind::kPinnedHost;
  if (options.memory_kinds && OneIn(random, 6))
    array.source.memory_kind = planner::MemoryKind::kPinnedHost;
}

void LoseDevices(Random& random, ReshardRequest& request) {
  std::vector<int64_t> targets;
  for (const ArraySpec& array : request.arrays) {
    targets.insert(targets.end(), array.target.devices->begin(), array.target.devices->end());
  }
  for (const Host& host : request.topology.hosts) {
    for (int64_t id : host.device_ids) {
      const bool needed = std::find(targets.begin(), targets.end(), id) != targets.end();
      if (!needed && OneIn(random, 2)) request.options.lost_device_ids.push_back(id);
    }
  }
  request.fallbacks.push_back(
      {.kind = planner::Fallback::Kind::kCheckpoint, .location = "/checkpoints", .step = 7});
}

}  // namespace

int64_t Uniform(Random& random, int64_t lo, int64_t hi) {
  return lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1));
}

planner::LayoutPtr RandomLayout(Random& random, const Shape& shape, int32_t device_count,
                                bool boxes) {
  if (boxes && OneIn(random, 5)) {
    return std::make_shared<const Layout>(RandomBoxLayout(random, shape, device_count));
  }
  Separable separable = RandomSeparable(random, shape, device_count);
  return std::make_shared<const Layout>(
      planner::MakeSeparableLayout(shape, std::move(separable.partitions), separable.numbers));
}

ReshardRequest RandomRequest(uint64_t seed, const RandomRequestOptions& options) {
  Random random(seed * 0x9e3779b97f4a7c15u + 1);
  ReshardRequest request{.topology = RandomTopology(random, options)};
  std::vector<int64_t> all;
  for (const Host& host : request.topology.hosts) {
    all.insert(all.end(), host.device_ids.begin(), host.device_ids.end());
  }
  std::vector<DeviceListPtr> lists;
  for (int64_t i = Uniform(random, 1, 4); i-- > 0;) lists.push_back(RandomDevices(random, all));
  const int64_t arrays = Uniform(random, 1, options.arrays_max);
  for (int64_t i = 0; i < arrays; ++i) {
    ArraySpec array;
    if (i > 0 && OneIn(random, 3)) {
      array = request.arrays.back();
    } else {
      array.shape = RandomShape(random, options);
      array.element_type = kTypes[Uniform(random, 0, std::size(kTypes) - 1)];
      PlaceArray(random, options, lists, array);
    }
    array.name = "array" + std::to_string(i);
    request.arrays.push_back(std::move(array));
  }
  if (options.small_windows && OneIn(random, 4))
    request.options.window_bytes = Uniform(random, 256, 2000);
  if (options.lost_devices && OneIn(random, 8)) LoseDevices(random, request);
  return request;
}

}  // namespace remesh::testing
