// SPDX-License-Identifier: Apache-2.0
#include "planner/codec/request_bytes.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/codec/corrupt_plan.h"
#include "planner/values/box_fields.h"

namespace remesh::planner {
namespace {

// Limits on what a few bytes can make a reader build, over all layouts of a request.
constexpr int64_t kPartsMax = int64_t{1} << 24;
constexpr int64_t kBoxesMax = int64_t{1} << 22;

// The data that a layout is built from. Tiles of a separable layout have numbers, tiles of others
// boxes.
struct LayoutBytes {
  Shape shape;
  std::string subgroup_kind;
  std::vector<DimPartition> partitions;
  std::vector<Tile> tiles;  // positions follow from tile_of
  std::vector<int32_t> tile_of;
  bool separable = false;
};

// An array with its placements as indices.
struct PlacementBytes {
  int32_t layout = 0;
  int32_t devices = 0;
  MemoryKind memory_kind = MemoryKind::kDevice;
};
struct ArrayBytes {
  std::string element_type;
  PlacementBytes source;
  PlacementBytes target;
};

struct RequestBytes {
  std::vector<LayoutBytes> layouts;
  std::vector<DeviceList> lists;
  std::vector<ArrayBytes> arrays;
};

template <typename Archive, typename T>
void LayoutFields(Archive& a, T& layout) {
  a.Steps(layout.shape);
  a.Text(layout.subgroup_kind);
  a.Number(layout.separable);
  a.Each(layout.partitions, [&](auto& partition) {
    a.Number(partition.parts);
    a.Steps(partition.cuts);
    a.Steps(partition.part_of);
  });
  a.Each(layout.tiles, [&](auto& tile) {
    a.Number(tile.subgroup);
    if (layout.separable) return a.Number(tile.number);
    a.Each(tile.boxes, [&](auto& box) { BoxFields(a, box); });
  });
  a.Steps(layout.tile_of);
}

template <typename Archive, typename T>
void PlacementFields(Archive& a, T& placement) {
  a.Number(placement.layout);
  a.Number(placement.devices);
  a.Number(placement.memory_kind);
}

template <typename Archive, typename T>
void TablesFields(Archive& a, T& tables) {
  a.Each(tables.layouts, [&](auto& layout) { LayoutFields(a, layout); });
  a.Each(tables.lists, [&](auto& list) { a.Steps(list); });
  a.Each(tables.arrays, [&](auto& array) {
    a.Text(array.element_type);
    PlacementFields(a, array.source);
    PlacementFields(a, array.target);
  });
}

// Reads or writes everything except the arrays.
template <typename Archive, typename T>
void FrameFields(Archive& a, T& request) {
  a.Each(request.topology.domains, [&](auto& domain) {
    a.Text(domain.name);
    a.Text(domain.parent);
    a.Number(domain.egress_bytes_per_second);
    a.Number(domain.ingress_bytes_per_second);
  });
  a.Each(request.topology.hosts, [&](auto& host) {
    a.Steps(host.device_ids);
    a.Number(host.nic_bytes_per_second);
    a.Number(host.nics);
    a.Number(host.fabric_bytes_per_second);
    a.Text(host.parent);
    auto& costs = host.message_costs;
    a.Number(costs.nic_message_seconds);
    a.Number(costs.fabric_message_seconds);
    a.Number(costs.post_seconds);
    a.Number(costs.posting_threads);
  });
  auto& options = request.options;
  a.Number(options.window_bytes);
  a.Number(options.memory_limit_bytes);
  a.Number(options.donate);
  a.Number(options.free_target_order);
  a.Steps(options.lost_device_ids);
  a.Number(options.strategy);
  a.Each(request.fallbacks, [&](auto& fallback) {
    a.Number(fallback.kind);
    a.Text(fallback.location);
    a.Number(fallback.step);
  });
}

// Numbers layouts and lists in the order of their first appearance.
class Tables {
 public:
  explicit Tables(const ReshardRequest& request) {
    for (const ArraySpec& array : request.arrays) {
      bytes_.arrays.push_back({.element_type = std::string(Name(array.element_type)),
                               .source = Number(array.source),
                               .target = Number(array.target)});
    }
  }
  const RequestBytes& bytes() const { return bytes_; }

 private:
  PlacementBytes Number(const Placement& placement) {
    const auto [layout, new_layout] =
        layouts_.try_emplace(placement.layout.get(), static_cast<int32_t>(layouts_.size()));
    if (new_layout) {
      const Layout& from = *placement.layout;
      bytes_.layouts.push_back({.shape = from.shape,
                                .subgroup_kind = from.subgroup_kind,
                                .partitions = from.partitions.value_or(std::vector<DimPartition>()),
                                .tiles = {from.tiles.begin(), from.tiles.end()},
                                .tile_of = from.tile_of,
                                .separable = from.partitions.has_value()});
    }
    const auto [list, new_list] =
        lists_.try_emplace(placement.devices.get(), static_cast<int32_t>(lists_.size()));
    if (new_list) bytes_.lists.push_back(*placement.devices);
    return {layout->second, list->second, placement.memory_kind};
  }

  RequestBytes bytes_;
  absl::flat_hash_map<const Layout*, int32_t> layouts_;
  absl::flat_hash_map<const DeviceList*, int32_t> lists_;
};

bool IsPartition(const DimPartition& partition, int64_t extent) {
  const std::vector<int64_t>& cuts = partition.cuts;
  return !cuts.empty() && cuts.front() == 0 && cuts.back() == extent &&
         std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) == cuts.end() &&
         partition.part_of.size() + 1 == cuts.size() &&
         std::all_of(partition.part_of.begin(), partition.part_of.end(),
                     [&](int64_t part) { return part >= 0 && part < partition.parts; });
}

// Builds layouts within the limits, with the same functions as the front ends.
class LayoutBuilder {
 public:
  absl::StatusOr<LayoutPtr> Build(const LayoutBytes& bytes) {
    RETURN_IF_ERROR(ValidateShape(bytes.shape, 1));
    ASSIGN_OR_RETURN(Layout layout, bytes.separable ? Separable(bytes) : Boxes(bytes));
    RETURN_IF_ERROR(CheckTiles(bytes, layout));
    layout.device_count = static_cast<int32_t>(bytes.tile_of.size());
    for (size_t position = 0; position < bytes.tile_of.size(); ++position) {
      const int32_t tile = bytes.tile_of[position];
      if (tile < -1 || tile >= static_cast<int32_t>(layout.tiles.size())) {
        return InvalidField(absl::StrCat("tile_of[", position, "]"), absl::StrCat(tile),
                            absl::StrCat("must be in [-1, ", layout.tiles.size(), ")"));
      }
    }
    layout.tile_of = bytes.tile_of;
    IndexPositions(layout);
    for (size_t t = 0; t < layout.tiles.size(); ++t) {
      if (!layout.PositionsOf(t).empty()) continue;
      return InvalidField(absl::StrCat("tiles[", t, "].positions"), "", "must not be empty");
    }
    return std::make_shared<const Layout>(std::move(layout));
  }

 private:
  // Builds a separable layout from one position of each tile.
  absl::StatusOr<Layout> Separable(const LayoutBytes& bytes) {
    if (bytes.partitions.size() != bytes.shape.size()) {
      return InvalidField("partitions", absl::StrCat(bytes.partitions.size()),
                          absl::StrCat("must be ", bytes.shape.size()));
    }
    std::vector<std::vector<int64_t>> pieces;  // per dimension and part
    int64_t keys = 1;
    for (const Tile& tile : bytes.tiles) {
      if (tile.subgroup < 0) {
        return InvalidField("tiles.subgroup", absl::StrCat(tile.subgroup), "must be >= 0");
      }
      keys = std::max(keys, tile.subgroup + (tile.subgroup < kMax));
    }
    for (size_t d = 0; d < bytes.partitions.size(); ++d) {
      const DimPartition& partition = bytes.partitions[d];
      const std::string parts = absl::StrCat("partitions[", d, "].parts");
      if (partition.parts < 1 || partition.parts > parts_left_) {
        return InvalidField(parts, absl::StrCat(partition.parts),
                            absl::StrCat("must be in [1, ", parts_left_, "]"));
      }
      parts_left_ -= partition.parts;
      if (!IsPartition(partition, bytes.shape[d])) {
        return InvalidField(absl::StrCat("partitions[", d, "].cuts"),
                            absl::StrCat(partition.cuts.size(), " cuts"),
                            absl::StrCat("must rise from 0 to ", bytes.shape[d]));
      }
      if (__builtin_mul_overflow(keys, partition.parts, &keys)) {
        return InvalidField(parts, absl::StrCat(partition.parts), "must make below 2^63 tiles");
      }
      std::vector<int64_t>& count = pieces.emplace_back(partition.parts, 0);
      for (int64_t part : partition.part_of) ++count[part];
    }
    std::vector<int64_t> numbers;
    std::vector<int64_t> subgroups;
    for (const Tile& tile : bytes.tiles) {
      RETURN_IF_ERROR(TakeBoxes(tile, pieces));
      numbers.push_back(tile.number);
      subgroups.push_back(tile.subgroup);
    }
    return MakeSeparableLayout(bytes.shape, bytes.partitions, numbers, subgroups,
                               bytes.subgroup_kind);
  }

  absl::Status TakeBoxes(const Tile& tile, const std::vector<std::vector<int64_t>>& pieces) {
    if (tile.number < 0) {
      return InvalidField("tiles.number", absl::StrCat(tile.number), "must be >= 0");
    }
    int64_t rest = tile.number;
    int64_t boxes = 1;
    for (size_t d = pieces.size(); d-- > 0;) {
      const int64_t parts = static_cast<int64_t>(pieces[d].size());
      if (__builtin_mul_overflow(boxes, pieces[d][rest % parts], &boxes) || boxes > boxes_left_) {
        return InvalidField("tiles.number", absl::StrCat(tile.number),
                            absl::StrCat("must leave the boxes below ", kBoxesMax));
      }
      rest /= parts;
    }
    if (rest != 0) {
      return InvalidField("tiles.number", absl::StrCat(tile.number), "must be that of a part");
    }
    boxes_left_ -= boxes;
    return absl::OkStatus();
  }

  absl::StatusOr<Layout> Boxes(const LayoutBytes& bytes) const {
    if (!bytes.subgroup_kind.empty()) {
      return InvalidField("subgroup_kind", bytes.subgroup_kind, "must be empty for boxes");
    }
    std::vector<std::vector<Box>> boxes;
    for (const Tile& tile : bytes.tiles) boxes.emplace_back(tile.boxes.begin(), tile.boxes.end());
    return MakeBoxLayout(bytes.shape, boxes);
  }

  // Checks that the built layout has the same tiles as the bytes.
  static absl::Status CheckTiles(const LayoutBytes& bytes, const Layout& layout) {
    const bool same = std::equal(bytes.tiles.begin(), bytes.tiles.end(), layout.tiles.begin(),
                                 layout.tiles.end(), [&](const Tile& a, const Tile& b) {
                                   return a.subgroup == b.subgroup && a.number == b.number &&
                                          (bytes.separable || a.boxes == b.boxes);
                                 });
    return same ? absl::OkStatus()
                : InvalidField("tiles", absl::StrCat(bytes.tiles.size(), " tiles"),
                               "must be in their order");
  }

  static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  int64_t parts_left_ = kPartsMax;
  int64_t boxes_left_ = kBoxesMax;
};

absl::Status CheckNumbers(const ReshardRequest& request) {
  int64_t next = 0;
  for (const Host& host : request.topology.hosts) {
    for (int64_t id : host.device_ids) {
      if (id != next++) {
        return CorruptField("hosts.device_ids", absl::StrCat(id),
                            absl::StrCat("must be ", next - 1));
      }
    }
  }
  if (request.options.strategy < Strategy::kOptimal ||
      request.options.strategy > Strategy::kGather) {
    return CorruptField("options.strategy",
                        absl::StrCat(static_cast<int>(request.options.strategy)),
                        "must name a strategy");
  }
  for (const Fallback& fallback : request.fallbacks) {
    if (fallback.kind != Fallback::Kind::kHostSnapshot &&
        fallback.kind != Fallback::Kind::kCheckpoint) {
      return CorruptField("fallbacks.kind", absl::StrCat(static_cast<int>(fallback.kind)),
                          "must name a kind");
    }
  }
  return absl::OkStatus();
}

// Gives names to a request and validates it: a canonical request has none, but ValidateRequest()
// requires them.
absl::Status ValidateNamed(ReshardRequest request, Budget& budget) {
  for (size_t i = 0; i < request.topology.hosts.size(); ++i) {
    request.topology.hosts[i].name = absl::StrCat(i);
  }
  for (size_t i = 0; i < request.arrays.size(); ++i) request.arrays[i].name = absl::StrCat(i);
  const absl::Status status = ValidateRequest(request, budget);
  return status.ok() ? status : CorruptPlan(status);
}

absl::Status BuildArrays(const RequestBytes& bytes, ReshardRequest& request) {
  std::vector<LayoutPtr> layouts;
  LayoutBuilder builder;
  for (const LayoutBytes& layout : bytes.layouts) {
    absl::StatusOr<LayoutPtr> built = builder.Build(layout);
    if (!built.ok()) {
      return CorruptPlan(AtField(absl::StrCat("layouts[", layouts.size(), "]"), built.status()));
    }
    layouts.push_back(*std::move(built));
  }
  std::vector<DeviceListPtr> lists;
  for (const DeviceList& list : bytes.lists) {
    lists.push_back(std::make_shared<const DeviceList>(list));
  }
  const auto place = [&](const PlacementBytes& from, Placement& to) {
    if (from.layout < 0 || from.layout >= static_cast<int64_t>(layouts.size()) ||
        from.devices < 0 || from.devices >= static_cast<int64_t>(lists.size()) ||
        from.memory_kind < MemoryKind::kDevice || from.memory_kind > MemoryKind::kUnpinnedHost) {
      return false;
    }
    to = {layouts[from.layout], lists[from.devices], from.memory_kind};
    return true;
  };
  for (const ArrayBytes& from : bytes.arrays) {
    ArraySpec& array = request.arrays.emplace_back();
    const auto type = ParseElementType(from.element_type);
    if (!type.ok() || !place(from.source, array.source) || !place(from.target, array.target)) {
      return CorruptField(absl::StrCat("arrays[", request.arrays.size() - 1, "]"),
                          from.element_type,
                          "must name an element type, layouts, lists and kinds of memory");
    }
    array.element_type = *type;
    array.shape = array.source.layout->shape;
  }
  return absl::OkStatus();
}

}  // namespace

void WriteRequest(const CanonicalRequest& canonical, ByteWriter& writer) {
  writer.Text(canonical.fingerprint);
  FrameFields(writer, canonical.request);
  TablesFields(writer, Tables(canonical.request).bytes());
}

absl::Status ReadRequest(ByteReader& reader, CanonicalRequest& canonical, Budget& budget) {
  RequestBytes bytes;
  reader.Text(canonical.fingerprint);
  FrameFields(reader, canonical.request);
  TablesFields(reader, bytes);
  if (!reader.ok()) return CorruptPlan("they end early or hold a number out of range");
  RETURN_IF_ERROR(CheckNumbers(canonical.request));
  RETURN_IF_ERROR(BuildArrays(bytes, canonical.request));
  return ValidateNamed(canonical.request, budget);
}

}  // namespace remesh::planner
