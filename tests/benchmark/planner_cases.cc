// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmark/planner_cases.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "proto/convert/plan_spec.h"
#include "tests/benchmark/spec_builder.h"

namespace remesh::testing {
namespace {

std::vector<std::vector<int>> Axes(const std::string& sharding) {
  std::vector<std::vector<int>> axes;
  for (char c : sharding) {
    if (c == 'R' || c == 'S') {
      axes.emplace_back();
    } else {
      axes.back().push_back(c - '0');
    }
  }
  return axes;
}

// One side of a model: which sharding each weight has.
class ModelSide {
 public:
  ModelSide(const ModelMesh& mesh, int64_t first_device, int64_t layers, SpecBuilder& builder)
      : mesh_(mesh), first_(first_device), layers_(layers), builder_(builder) {}

  // `expert` of `experts`, or -1 when the weight is not one expert alone.
  std::string Place(const Weight& weight, int64_t layer, int64_t expert = -1, int64_t experts = 0) {
    const int64_t size = mesh_.stage_devices();
    const int64_t first = first_ + StageOf(layer) * size;
    if (expert >= 0) {
      REMESH_CHECK(mesh_.ep * mesh_.etp == size);
      const int64_t rank = expert * mesh_.ep / experts;
      return builder_.Sharding(DTensor({mesh_.etp}, {weight.tensor_dim}), first + rank * mesh_.etp,
                               mesh_.etp);
    }
    if (weight.experts) {
      const int64_t replicas = size / (mesh_.ep * mesh_.etp);
      return builder_.Sharding(
          DTensor({replicas, mesh_.ep, mesh_.etp}, {kReplicated, 0, weight.tensor_dim}), first,
          size);
    }
    return builder_.Sharding(DTensor({mesh_.dp, mesh_.tp}, {kReplicated, weight.tensor_dim}), first,
                             size);
  }

 private:
  int64_t StageOf(int64_t layer) const { return layer * mesh_.pp / layers_; }

  ModelMesh mesh_;
  int64_t first_;
  int64_t layers_;
  SpecBuilder& builder_;
};

// A model between two sides, weight by weight.
class ModelMove {
 public:
  ModelMove(const Model& model, const ModelMesh& source, const ModelMesh& target, Targets targets,
            int64_t devices_of_host)
      : model_(model),
        layers_(static_cast<int64_t>(model.layers.size())),
        first_target_(targets == Targets::kSameDevices ? 0 : source.devices()),
        source_(source, 0, layers_, builder_),
        target_(target, first_target_, layers_, builder_) {
    const int64_t devices = std::max(source.devices(), first_target_ + target.devices());
    const int64_t hosts = (devices + devices_of_host - 1) / devices_of_host;
    builder_.AddHosts(hosts,
                      {.devices = devices_of_host, .nics = static_cast<int32_t>(devices_of_host)});
  }

  v1::PlanSpec Run(bool experts_apart) && {
    for (const Weight& weight : model_.before) Add(weight, weight.name, 0);
    for (int64_t layer = 0; layer < layers_; ++layer) {
      for (const Weight& weight : model_.layers[layer]) {
        const std::string name = absl::StrCat("layers.", layer, ".", weight.name);
        if (experts_apart && weight.experts) {
          AddEach(weight, name, layer);
        } else {
          Add(weight, name, layer);
        }
      }
    }
    for (const Weight& weight : model_.after) Add(weight, weight.name, layers_ - 1);
    return std::move(builder_).Take();
  }

 private:
  void Add(const Weight& weight, const std::string& name, int64_t layer) {
    builder_.Add(name, weight.shape, model_.element_type, source_.Place(weight, layer),
                 target_.Place(weight, layer));
  }

  void AddEach(const Weight& stacked, const std::string& name, int64_t layer) {
    const std::vector<Weight> experts = EachExpert(stacked);
    const int64_t count = static_cast<int64_t>(experts.size());
    for (int64_t e = 0; e < count; ++e) {
      builder_.Add(absl::StrCat(name, ".", e), experts[e].shape, model_.element_type,
                   source_.Place(experts[e], layer, e, count),
                   target_.Place(experts[e], layer, e, count));
    }
  }

  const Model& model_;
  int64_t layers_;
  int64_t first_target_;
  SpecBuilder builder_;
  ModelSide source_;
  ModelSide target_;
};

int64_t ElementsOf(const Weight& weight) {
  int64_t elements = 1;
  for (int64_t extent : weight.shape) elements *= extent;
  return elements;
}

// The devices of two racks of 72.
constexpr int64_t kTwoRacks = 144;

// Every array of experts cut into 16 x 9 parts of nearly equal size.
v1::Sharding EvenExperts() { return HloTiles({16, 9}, {{0}, {1}, {}}); }

// Adds a bf16 array between two shardings of all devices 0 .. devices - 1.
void AddHloArray(const std::vector<int64_t>& shape, const std::string& source,
                 const std::string& target, int64_t devices, v1::PlanSpec& spec) {
  v1::ArraySpec& array = *spec.add_arrays();
  array.set_name(absl::StrCat("a", spec.arrays_size()));
  array.mutable_shape()->Add(shape.begin(), shape.end());
  array.set_element_type("bf16");
  array.mutable_source()->set_hlo_text(source);
  array.mutable_target()->set_hlo_text(target);
  array.mutable_source()->mutable_devices()->mutable_range()->set_count(devices);
  array.mutable_target()->mutable_devices()->mutable_range()->set_count(devices);
}

v1::PlanSpec OnHostsOfEight(int64_t devices) {
  SpecBuilder builder;
  builder.AddHosts(devices / 8, {});
  return std::move(builder).Take();
}

// Tiles of 2 replicas over the devices 0 .. devices - 1 in random order.
std::string RandomLayout(const std::string& tiles, int64_t devices, std::mt19937& random) {
  std::vector<int64_t> ids(devices);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), random);
  return absl::StrCat("{devices=[", tiles, ",2]", absl::StrJoin(ids, ","),
                      " last_tile_dim_replicate}");
}

}  // namespace

planner::ReshardRequest RequestOf(const v1::PlanSpec& spec) {
  auto request = proto::ToReshardRequest(spec, nullptr);
  REMESH_CHECK(request.ok());
  return *std::move(request);
}

v1::PlanSpec ModelSpec(const Model& model, const ModelMesh& source, const ModelMesh& target,
                       Targets targets, int64_t devices_of_host) {
  return ModelMove(model, source, target, targets, devices_of_host).Run(/*experts_apart=*/false);
}

v1::PlanSpec ExpertsApartSpec(const Model& model, const ModelMesh& source,
                              const ModelMesh& target) {
  return ModelMove(model, source, target, Targets::kOtherDevices, 8).Run(/*experts_apart=*/true);
}

v1::PlanSpec FlatSpec(int64_t source_devices, int64_t target_devices, bool all_states) {
  SpecBuilder builder;
  builder.AddHosts(std::max(source_devices, target_devices) / 8, {});
  // Either side in a form of its own: as FSDP and as GSPMD write it.
  const std::string source = builder.Sharding(DTensor({source_devices}, {0}), 0, source_devices);
  const std::string target = builder.Sharding(HloTiles({target_devices}, {{0}}), 0, target_devices);
  const auto add = [&](const std::string& name, const Weight& weight) {
    const int64_t elements = ElementsOf(weight);
    builder.Add(name, {elements}, "bf16", source, target);
    if (!all_states) return;
    for (const char* state : {".master", ".exp_avg", ".exp_avg_sq"}) {
      builder.Add(name + state, {elements}, "f32", source, target);
    }
  };
  ForEachWeight(Llama405b(), add);
  return std::move(builder).Take();
}

v1::PlanSpec TrainersToReplicasSpec(int64_t devices) {
  constexpr int64_t kTensorParallel = 8;
  SpecBuilder builder;
  builder.AddHosts(2 * devices / 8, {});
  const std::string source = builder.Sharding(DTensor({devices}, {0}), 0, devices);
  ForEachWeight(Llama405b(), [&](const std::string& name, const Weight& weight) {
    const std::string target = builder.Sharding(
        DTensor({devices / kTensorParallel, kTensorParallel}, {kReplicated, weight.tensor_dim}),
        devices, devices);
    builder.Add(name, weight.shape, "bf16", source, target);
  });
  return std::move(builder).Take();
}

v1::PlanSpec ExpertsToEvenSpec() {
  SpecBuilder builder;
  builder.AddHosts(kTwoRacks / 8, {});
  const std::string whole = builder.Sharding(HloTiles({kTwoRacks}, {{0}, {}, {}}), 0, kTwoRacks);
  const std::string even = builder.Sharding(EvenExperts(), 0, kTwoRacks);
  ForEachWeight(DeepSeekV3("f8e4m3fn"), [&](const std::string& name, const Weight& weight) {
    if (weight.experts) builder.Add(name, weight.shape, "f8e4m3fn", whole, even);
  });
  return std::move(builder).Take();
}

v1::PlanSpec EvenToReplicatedSpec() {
  constexpr int64_t kReplicas = 72;
  SpecBuilder builder;
  builder.AddHosts(kTwoRacks / 8, {});
  const std::string even = builder.Sharding(EvenExperts(), 0, kTwoRacks);
  const std::string all = builder.Sharding(DTensor({kReplicas}, {kReplicated}), 0, kReplicas);
  const Model model = DeepSeekV3("f8e4m3fn");
  for (const Weight& weight : model.layers.back()) {
    if (weight.experts) builder.Add(weight.name, weight.shape, "f8e4m3fn", even, all);
  }
  return std::move(builder).Take();
}

v1::PlanSpec OnHostsOf(int64_t devices_of_host, v1::PlanSpec spec) {
  std::vector<int64_t> ids;
  for (const v1::Host& host : spec.topology().hosts()) {
    ids.insert(ids.end(), host.device_ids().begin(), host.device_ids().end());
  }
  std::sort(ids.begin(), ids.end());
  spec.clear_topology();
  const int64_t count = static_cast<int64_t>(ids.size());
  for (int64_t first = 0; first < count; first += devices_of_host) {
    const int64_t devices = std::min(devices_of_host, count - first);
    v1::Host& host = *spec.mutable_topology()->add_hosts();
    host.set_name(absl::StrCat("host", first));
    host.set_nics(static_cast<int32_t>(devices));
    host.set_nic_bytes_per_second(50e9);
    host.set_fabric_bytes_per_second(devices_of_host <= 8 ? 450e9 : 900e9);
    for (int64_t i = 0; i < devices; ++i) host.add_device_ids(ids[first + i]);
  }
  return spec;
}

v1::PlanSpec OnHostsOfPreset(const std::string& preset, int64_t devices_of_host,
                             v1::PlanSpec spec) {
  spec = OnHostsOf(devices_of_host, std::move(spec));
  for (v1::Host& host : *spec.mutable_topology()->mutable_hosts()) {
    host.set_preset(preset);
    host.clear_nic_bytes_per_second();
    host.clear_fabric_bytes_per_second();
  }
  return spec;
}

v1::PlanSpec WithPostingThreads(v1::PlanSpec spec) {
  for (v1::Host& host : *spec.mutable_topology()->mutable_hosts()) {
    host.set_posting_threads(host.device_ids_size());
  }
  return spec;
}

v1::PlanSpec MeshSpec(const std::vector<int64_t>& shape, const MeshSide& source,
                      const MeshSide& target) {
  constexpr int64_t kFirstTarget = 1000;
  SpecBuilder builder;
  const auto place = [&](const MeshSide& side, int64_t first) {
    builder.AddHosts(side.hosts,
                     {.devices = side.devices, .nics = 1, .nic_bytes_per_second = 1.25e9}, first);
    return builder.Sharding(HloTiles({side.hosts, side.devices}, Axes(side.sharding)), first,
                            side.hosts * side.devices);
  };
  const std::string before = place(source, 0);
  builder.Add("x", shape, "s32", before, place(target, kFirstTarget));
  return std::move(builder).Take();
}

v1::PlanSpec RandomLayoutsSpec() {
  constexpr int64_t kDevices = 512;
  v1::PlanSpec spec = OnHostsOfEight(kDevices);
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    const std::string source = RandomLayout("256,1", kDevices, random);
    const std::string target = RandomLayout("1,256", kDevices, random);
    AddHloArray({4096, 4096}, source, target, kDevices, spec);
  }
  return spec;
}

v1::PlanSpec RowsToColumnsSpec(int64_t arrays, int64_t devices) {
  v1::PlanSpec spec = OnHostsOfEight(devices);
  const std::string source = absl::StrCat("{devices=[", devices, ",1]<=[", devices, "]}");
  const std::string target = absl::StrCat("{devices=[1,", devices, "]<=[", devices, "]}");
  for (int64_t i = 0; i < arrays; ++i) {
    AddHloArray({4 * devices + i, 4 * devices}, source, target, devices, spec);
  }
  return spec;
}

}  // namespace remesh::testing
