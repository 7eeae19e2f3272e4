// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmark/planner_cases.h"

#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace remesh::testing {
namespace {

constexpr double kGpuNic = 50e9;   // 400 Gbit/s
constexpr double kFabric = 450e9;  // NVLink 4

DeviceListPtr Range(int64_t first, int64_t count) {
  auto ids = std::make_shared<DeviceList>(count);
  std::iota(ids->begin(), ids->end(), first);
  return ids;
}

// Dimension d of an array is cut over the mesh axes axes[d], major first; a mesh is row-major over
// its device list.
LayoutPtr MeshLayout(const Shape& shape, const std::vector<int64_t>& mesh,
                     const std::vector<std::vector<int>>& axes) {
  std::vector<DimPartition> partitions;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t parts = 1;
    for (int axis : axes[d]) parts *= mesh[axis];
    partitions.push_back(TilePartition(shape[d], parts));
  }
  const int64_t count = std::accumulate(mesh.begin(), mesh.end(), int64_t{1}, std::multiplies<>());
  std::vector<std::vector<int64_t>> parts;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> at(mesh.size());
    int64_t rest = i;
    for (size_t a = mesh.size(); a-- > 0; rest /= mesh[a]) at[a] = rest % mesh[a];
    std::vector<int64_t> mine;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t part = 0;
      for (int axis : axes[d]) part = part * mesh[axis] + at[axis];
      mine.push_back(part);
    }
    parts.push_back(std::move(mine));
  }
  return std::make_shared<const Layout>(MakeSeparableLayout(shape, std::move(partitions), parts));
}

// Shares layouts that are asked for again.
class LayoutCache {
 public:
  LayoutPtr Get(const Shape& shape, const std::vector<int64_t>& mesh,
                const std::vector<std::vector<int>>& axes) {
    LayoutPtr& layout = layouts_[{{shape.begin(), shape.end()}, mesh, axes}];
    if (layout == nullptr) layout = MeshLayout(shape, mesh, axes);
    return layout;
  }

 private:
  std::map<std::tuple<std::vector<int64_t>, std::vector<int64_t>, std::vector<std::vector<int>>>,
           LayoutPtr>
      layouts_;
};

// "RS01R": one letter a dimension, with the mesh axes that cut it.
std::vector<std::vector<int>> Axes(const std::string& spec) {
  std::vector<std::vector<int>> axes;
  for (char c : spec) {
    if (c == 'R' || c == 'S') {
      axes.emplace_back();
    } else {
      axes.back().push_back(c - '0');
    }
  }
  return axes;
}

// One array between two meshes of hosts with one NIC each.
PlannerCase MeshCase(const std::string& name, const Shape& shape, std::pair<int64_t, int64_t> from,
                     const std::string& source, std::pair<int64_t, int64_t> to,
                     const std::string& target, double nic = 1.25e9) {
  PlannerCase result{.name = name, .request = {}};
  Topology& topology = result.request.topology;
  AddHosts(from.first, from.second, 1, nic, 0, topology);
  AddHosts(to.first, to.second, 1, nic, 1000, topology);
  ArraySpec array{.name = "x", .shape = shape, .element_type = ElementType::kS32};
  array.source = {MeshLayout(shape, {from.first, from.second}, Axes(source)),
                  Range(0, from.first * from.second)};
  array.target = {MeshLayout(shape, {to.first, to.second}, Axes(target)),
                  Range(1000, to.first * to.second)};
  result.request.arrays.push_back(std::move(array));
  return result;
}

// One side of a model in Megatron's rank order: tensor parallel fastest, then data, then pipeline.
class MegatronSide {
 public:
  MegatronSide(const Megatron& mesh, int64_t first_id, int64_t layers)
      : mesh_(mesh), layers_(layers) {
    for (int64_t p = 0; p < mesh.pp; ++p) {
      stages_.push_back(Range(first_id + p * mesh.tp * mesh.dp, mesh.tp * mesh.dp));
    }
  }

  // dim: the one cut by tensor parallelism, -1 for none. layer -1 is the embedding, `layers` the
  // head.
  Placement Place(const Shape& shape, int dim, int64_t layer) {
    const int64_t clamped = std::min(std::max<int64_t>(layer, 0), layers_ - 1);
    std::vector<std::vector<int>> axes(shape.size());
    if (dim >= 0) axes[dim] = {1};
    return {cache_.Get(shape, {mesh_.dp, mesh_.tp}, axes), stages_[clamped * mesh_.pp / layers_]};
  }

 private:
  Megatron mesh_;
  int64_t layers_;
  LayoutCache cache_;
  std::vector<DeviceListPtr> stages_;
};

struct Weight {
  const char* name;
  Shape shape;
  int tp_dim;
};

std::vector<Weight> LlamaLayer(int64_t d, int64_t q, int64_t kv, int64_t ffn) {
  return {{"q", {q, d}, 0},      {"k", {kv, d}, 0},     {"v", {kv, d}, 0},
          {"o", {d, q}, 1},      {"gate", {ffn, d}, 0}, {"up", {ffn, d}, 0},
          {"down", {d, ffn}, 1}, {"norm1", {d}, -1},    {"norm2", {d}, -1}};
}

PlannerCase MegatronCase(const std::string& name, const Megatron& source, const Megatron& target,
                         bool same_devices, int64_t layers, int64_t d, int64_t vocab,
                         const std::vector<Weight>& layer_weights) {
  PlannerCase result{.name = name, .request = {}};
  const int64_t first_target = same_devices ? 0 : source.devices();
  const int64_t devices = std::max(source.devices(), first_target + target.devices());
  AddHosts(devices / 8, 8, 8, kGpuNic, 0, result.request.topology);
  MegatronSide before(source, 0, layers);
  MegatronSide after(target, first_target, layers);
  const auto add = [&](const Weight& w, int64_t layer) {
    result.request.arrays.push_back({.name = std::string(w.name) + std::to_string(layer),
                                     .shape = w.shape,
                                     .element_type = ElementType::kBf16,
                                     .source = before.Place(w.shape, w.tp_dim, layer),
                                     .target = after.Place(w.shape, w.tp_dim, layer)});
  };
  add({"embed", {vocab, d}, 0}, -1);
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (const Weight& w : layer_weights) add(w, layer);
  }
  add({"final_norm", {d}, -1}, layers);
  add({"head", {vocab, d}, 0}, layers);
  return result;
}

// DeepSeek-V3 over pp stages of (ep, tp) devices: experts go whole to one of ep ranks, tp-fold; the
// rest is cut tp-fold.
void PlaceDeepSeek(int64_t pp, int64_t ep, int64_t tp, int64_t first_id, Placement ArraySpec::*side,
                   std::vector<ArraySpec>& arrays) {
  constexpr int64_t kLayers = 61;
  LayoutCache cache;
  std::map<std::pair<int64_t, int64_t>, DeviceListPtr> lists;  // stage, ep rank (-1: all)
  size_t next = 0;
  const auto place = [&](const char* name, const Shape& shape, int dim, int64_t layer,
                         int64_t expert) {
    if (next == arrays.size()) arrays.emplace_back();
    ArraySpec& array = arrays[next++];
    array.name = std::string(name) + "." + std::to_string(layer) + "." + std::to_string(expert);
    array.shape = shape;
    array.element_type = ElementType::kF8E4M3Fn;
    const int64_t stage = layer * pp / kLayers;
    const int64_t rank = expert < 0 ? -1 : expert * ep / 256;
    DeviceListPtr& list = lists[{stage, rank}];
    if (list == nullptr) {
      list = rank < 0 ? Range(first_id + stage * ep * tp, ep * tp)
                      : Range(first_id + (stage * ep + rank) * tp, tp);
    }
    std::vector<std::vector<int>> axes(shape.size());
    if (dim >= 0) axes[dim] = {1};
    array.*side = {cache.Get(shape, {rank < 0 ? ep : 1, tp}, axes), list};
  };
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    place("q_a", {1536, 7168}, -1, layer, -1);
    place("q_b", {24576, 1536}, 0, layer, -1);
    place("kv_a", {576, 7168}, -1, layer, -1);
    place("kv_b", {32768, 512}, 0, layer, -1);
    place("o", {7168, 16384}, 1, layer, -1);
    if (layer < 3) {
      place("gate", {18432, 7168}, 0, layer, -1);
      place("up", {18432, 7168}, 0, layer, -1);
      place("down", {7168, 18432}, 1, layer, -1);
      continue;
    }
    for (int64_t e = 0; e < 256; ++e) {
      place("gate", {2048, 7168}, 0, layer, e);
      place("up", {2048, 7168}, 0, layer, e);
      place("down", {7168, 2048}, 1, layer, e);
    }
  }
}

}  // namespace

void AddHosts(int64_t hosts, int64_t devices, int32_t nics, double nic, int64_t first_id,
              Topology& topology) {
  for (int64_t h = 0; h < hosts; ++h) {
    Host host{.name = "h" + std::to_string(first_id) + "-" + std::to_string(h),
              .nic_bytes_per_second = nic,
              .nics = nics,
              .fabric_bytes_per_second = kFabric};
    for (int64_t i = 0; i < devices; ++i) host.device_ids.push_back(first_id + h * devices + i);
    topology.hosts.push_back(std::move(host));
  }
}

std::vector<PlannerCase> AlpaCases() {
  const Shape big = {1024, 1024, 512};
  return {
      MeshCase("alpa1 S0RR->S0RR", big, {2, 4}, "S0RR", {2, 4}, "S0RR"),
      MeshCase("alpa2 RRR->S0RR", big, {2, 4}, "RRR", {2, 4}, "S0RR"),
      MeshCase("alpa3 RS0R->S0RR", big, {2, 4}, "RS0R", {2, 4}, "S0RR"),
      MeshCase("alpa4 RS01R->S01RR", big, {2, 4}, "RS01R", {2, 4}, "S01RR"),
      MeshCase("alpa5 S1RR->S0RR", big, {2, 4}, "S1RR", {2, 4}, "S0RR"),
      MeshCase("alpa6 (2,4)->(3,4) S0RR->S0RR", {3072, 1024, 170}, {2, 4}, "S0RR", {3, 4}, "S0RR"),
      MeshCase("alpa7 (1,4)->(2,4) S1RR->RRR", big, {1, 4}, "S1RR", {2, 4}, "RRR"),
      MeshCase("alpa8 (1,4)->(2,4) S1RR->RRR", big, {1, 4}, "S1RR", {2, 4}, "RRR"),
      MeshCase("alpa9 RS0R->RRS0", big, {2, 4}, "RS0R", {2, 4}, "RRS0")};
}

std::vector<PlannerCase> UnevenCases() {
  const Shape shape = {3072, 1024, 64};
  return {MeshCase("S0->S0 (4,2)->(3,2)", shape, {4, 2}, "S0RR", {3, 2}, "S0RR"),
          MeshCase("R3->S0 8", shape, {3, 4}, "RRR", {8, 4}, "S0RR"),
          MeshCase("R5->S0 8", shape, {5, 4}, "RRR", {8, 4}, "S0RR"),
          MeshCase("R7->S0 16", shape, {7, 4}, "RRR", {16, 4}, "S0RR")};
}

PlannerCase AllToAllCase() {
  return MeshCase("(8,8)->(8,8) RS01R->S01RR", {1024, 1024, 512}, {8, 8}, "RS01R", {8, 8}, "S01RR");
}

PlannerCase Llama405bCase(const Megatron& source, const Megatron& target, bool same_devices) {
  return MegatronCase(
      "405B " + std::to_string(source.devices()) + "->" + std::to_string(target.devices()), source,
      target, same_devices, 126, 16384, 128256, LlamaLayer(16384, 16384, 1024, 53248));
}

PlannerCase Qwen32bCase() {
  return MegatronCase("Qwen3-32B TP4PP4DP2->TP4DP8", {4, 4, 2}, {4, 1, 8}, false, 64, 5120, 151936,
                      LlamaLayer(5120, 8192, 1024, 25600));
}

PlannerCase DeepSeekCase() {
  PlannerCase result{.name = "DeepSeek-V3 2048->1536", .request = {}};
  AddHosts(3584 / 8, 8, 8, kGpuNic, 0, result.request.topology);
  PlaceDeepSeek(16, 16, 8, 0, &ArraySpec::source, result.request.arrays);
  PlaceDeepSeek(12, 32, 4, 2048, &ArraySpec::target, result.request.arrays);
  return result;
}

PlannerCase FlatCase(int64_t source_devices, int64_t target_devices, bool all_states) {
  PlannerCase result{
      .name = "flat " + std::to_string(source_devices) + "->" + std::to_string(target_devices),
      .request = {}};
  AddHosts(std::max(source_devices, target_devices) / 8, 8, 8, kGpuNic, 0, result.request.topology);
  const DeviceListPtr before = Range(0, source_devices);
  const DeviceListPtr after = Range(0, target_devices);
  LayoutCache cache;
  const auto add = [&](const std::string& name, int64_t elements, ElementType type) {
    const Shape shape = {elements};
    result.request.arrays.push_back({.name = name,
                                     .shape = shape,
                                     .element_type = type,
                                     .source = {cache.Get(shape, {source_devices}, {{0}}), before},
                                     .target = {cache.Get(shape, {target_devices}, {{0}}), after}});
  };
  const auto add_states = [&](const std::string& name, int64_t elements) {
    add(name, elements, ElementType::kBf16);
    if (!all_states) return;
    for (const char* state : {".master", ".m", ".v"})
      add(name + state, elements, ElementType::kF32);
  };
  add_states("embed", int64_t{128256} * 16384);
  for (int64_t layer = 0; layer < 126; ++layer) {
    for (const Weight& w : LlamaLayer(16384, 16384, 1024, 53248)) {
      add_states(w.name + std::to_string(layer), ElementCount(w.shape));
    }
  }
  add_states("head", int64_t{128256} * 16384);
  return result;
}

}  // namespace remesh::testing
