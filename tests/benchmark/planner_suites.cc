// SPDX-License-Identifier: Apache-2.0
// Which cases there are. What peers measured on them: peers.json.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/benchmark/planner_cases.h"
#include "tests/benchmark/spec_builder.h"

namespace remesh::testing {
namespace {

using Cases = std::vector<PlannerCase>;

std::string MeshName(const MeshSide& source, const MeshSide& target) {
  const auto side = [](const MeshSide& s) {
    return absl::StrCat("(", s.hosts, ",", s.devices, ") ", s.sharding);
  };
  return absl::StrCat(side(source), " -> ", side(target));
}

void AddMesh(const std::string& suite, const std::string& name, const std::vector<int64_t>& shape,
             const MeshSide& source, const MeshSide& target, Cases& cases) {
  cases.push_back({suite, name.empty() ? MeshName(source, target) : name,
                   [=] { return MeshSpec(shape, source, target); }});
}

void AddAlpa(Cases& cases) {
  const std::vector<int64_t> big = {1024, 1024, 512};
  const auto add = [&](const std::vector<int64_t>& shape, const MeshSide& source,
                       const MeshSide& target) {
    const std::string name = absl::StrCat(cases.size() + 1, ": ", MeshName(source, target));
    AddMesh("alpa", name, shape, source, target, cases);
  };
  add(big, {2, 4, "S0RR"}, {2, 4, "S0RR"});
  add(big, {2, 4, "RRR"}, {2, 4, "S0RR"});
  add(big, {2, 4, "RS0R"}, {2, 4, "S0RR"});
  add(big, {2, 4, "RS01R"}, {2, 4, "S01RR"});
  add(big, {2, 4, "S1RR"}, {2, 4, "S0RR"});
  add({3072, 1024, 170}, {2, 4, "S0RR"}, {3, 4, "S0RR"});
  add(big, {1, 4, "S1RR"}, {2, 4, "RRR"});
  add(big, {1, 4, "S1RR"}, {2, 4, "RRR"});
  add(big, {2, 4, "RS0R"}, {2, 4, "RRS0"});
}

void AddMeshes(Cases& cases) {
  const std::vector<int64_t> shape = {3072, 1024, 64};
  AddMesh("uneven", "", shape, {4, 2, "S0RR"}, {3, 2, "S0RR"}, cases);
  AddMesh("uneven", "", shape, {3, 4, "RRR"}, {8, 4, "S0RR"}, cases);
  AddMesh("uneven", "", shape, {5, 4, "RRR"}, {8, 4, "S0RR"}, cases);
  AddMesh("uneven", "", shape, {7, 4, "RRR"}, {16, 4, "S0RR"}, cases);
  for (const auto& [hosts, devices] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 2}, {3, 2}, {4, 2}}) {
    AddMesh("one to many", "", {int64_t{1} << 28}, {1, 1, "R"}, {hosts, devices, "R"}, cases);
  }
  for (int64_t hosts : {2, 4, 8}) {
    AddMesh("scaling", "", {1024, 1024, 512}, {hosts, 8, "RS01R"}, {hosts, 8, "S01RR"}, cases);
  }
}

std::string Describe(const ModelMesh& mesh) {
  std::string text = absl::StrCat("TP", mesh.tp);
  if (mesh.pp > 1) absl::StrAppend(&text, " PP", mesh.pp);
  if (mesh.ep > 1) absl::StrAppend(&text, " EP", mesh.ep);
  if (mesh.dp > 1 && mesh.ep == 1) absl::StrAppend(&text, " DP", mesh.dp);
  return absl::StrCat(text, " (", mesh.devices(), ")");
}

std::string Describe(const std::string& model, const ModelMesh& source, const ModelMesh& target) {
  return absl::StrCat(model, " ", Describe(source), " -> ", Describe(target));
}

void AddModel(const std::string& suite, const std::string& name, Model (*model)(),
              const ModelMesh& source, const ModelMesh& target, Targets targets, Cases& cases,
              int64_t devices_of_host = 8) {
  cases.push_back({suite, Describe(name, source, target),
                   [=] { return ModelSpec(model(), source, target, targets, devices_of_host); }});
}

Model DeepSeekFp8() { return DeepSeekV3("f8e4m3fn"); }
Model DeepSeekBf16() { return DeepSeekV3("bf16"); }
Model KimiFp8() { return KimiK2("f8e4m3fn"); }

void AddRefits(Cases& cases) {
  const Targets apart = Targets::kOtherDevices;
  AddModel("m2n", "Qwen3-32B", Qwen3Dense32b, {4, 4, 2}, {4, 1, 8}, apart, cases);
  AddModel("m2n", "Qwen3-32B", Qwen3Dense32b, {2, 4, 2}, {1, 1, 16}, apart, cases, 4);
  AddModel("m2n", "DeepSeek-V3 FP8", DeepSeekFp8, {1, 8, 16, 16, 1}, {8, 1, 16, 1, 8}, apart,
           cases);
  // The peer's figures for these are from NVL72 racks, 64 GPUs of each in use.
  AddModel("m2n", "DeepSeek-V3 FP8", DeepSeekFp8, {1, 4, 32, 16, 1}, {8, 1, 16, 1, 8}, apart, cases,
           64);
  AddModel("m2n", "Qwen3-235B", Qwen3Moe235b, {2, 4, 8, 16, 1}, {8, 1, 8, 1, 8}, apart, cases, 64);
  AddModel("fan-out", "Kimi-K2 FP8", KimiFp8, {1, 16, 16, 16, 1}, {16, 1, 16, 1, 16}, apart, cases);
  AddModel("fan-out", "Kimi-K2 FP8", KimiFp8, {1, 16, 16, 16, 1}, {16, 1, 8, 1, 16}, apart, cases);
  AddModel("fan-out", "DeepSeek-V3 BF16", DeepSeekBf16, {1, 16, 16, 16, 1}, {32, 1, 8, 1, 32},
           apart, cases);
}

void AddElastic(Cases& cases) {
  const Targets apart = Targets::kOtherDevices, same = Targets::kSameDevices;
  AddModel("elastic", "Llama-405B", Llama405b, {8, 16, 1}, {8, 2, 32}, apart, cases);
  AddModel("elastic", "Llama-405B", Llama405b, {8, 16, 8}, {8, 2, 32}, same, cases);
  AddModel("elastic", "Llama-405B", Llama405b, {8, 16, 4}, {8, 1, 8}, same, cases);
  AddModel("elastic", "Llama-70B", Llama70b, {8, 4, 1}, {8, 1, 16}, apart, cases);
  AddModel("elastic", "Llama-70B", Llama70b, {8, 4, 4}, {8, 1, 4}, same, cases);
  AddModel("elastic", "Llama-70B", Llama70b, {8, 4, 4}, {4, 1, 16}, same, cases);
  AddModel("elastic", "Llama-8B", Llama8b, {2, 1, 2}, {4, 1, 1}, apart, cases);
  cases.push_back({"elastic", "DeepSeek-V3 FP8, each expert an array (2048) -> (1536)", [] {
                     return ExpertsApartSpec(DeepSeekFp8(), {8, 16, 16, 16, 8}, {4, 12, 32, 32, 4});
                   }});
  cases.push_back({"memory", "Llama-405B TP8 PP16 DP2 (256) -> TP8 PP8 DP4 (256)", [=] {
                     return ModelSpec(Llama405b(), {8, 16, 2}, {8, 8, 4}, same);
                   }});
  cases.push_back({"memory", "Llama-405B TP8 PP16 DP2 (256) -> TP8 PP8 DP4 (256), donated", [=] {
                     v1::PlanSpec spec = ModelSpec(Llama405b(), {8, 16, 2}, {8, 8, 4}, same);
                     spec.mutable_options()->set_donate(true);
                     return spec;
                   }});
  cases.push_back({"memory", "flat 16384 -> 12288 x4, donated", [] {
                     v1::PlanSpec spec = FlatSpec(16384, 12288, /*all_states=*/true);
                     spec.mutable_options()->set_donate(true);
                     return spec;
                   }});
}

void AddFlat(Cases& cases) {
  for (const auto& [before, after] :
       std::vector<std::pair<int64_t, int64_t>>{{1024, 1016}, {128, 120}, {64, 72}, {512, 1024}}) {
    for (bool free : {false, true}) {
      cases.push_back({"target order",
                       absl::StrCat("flat ", before, " -> ", after, free ? ", free" : ", as given"),
                       [=] {
                         v1::PlanSpec spec = FlatSpec(before, after, /*all_states=*/false);
                         spec.mutable_options()->set_free_target_order(free);
                         return spec;
                       }});
    }
  }
  const auto add = [&](int64_t before, int64_t after, bool all_states) {
    cases.push_back({"scale", absl::StrCat("flat ", before, " -> ", after, all_states ? " x4" : ""),
                     [=] { return FlatSpec(before, after, all_states); }});
  };
  add(2048, 1536, true);
  add(16384, 12288, false);
  add(16384, 12288, true);
  add(131072, 131064, true);
}

// Those that cost most.
void AddGreatest(Cases& cases) {
  cases.push_back({"greatest", "flat 131072 -> 131064 x4, free", [] {
                     v1::PlanSpec spec = FlatSpec(131072, 131064, /*all_states=*/true);
                     spec.mutable_options()->set_free_target_order(true);
                     return spec;
                   }});
  cases.push_back(
      {"greatest", "60 arrays of 2 replicas in random layouts (512)", RandomLayoutsSpec});
  cases.push_back({"greatest", "all-to-all (2048)", [] { return RowsToColumnsSpec(1, 2048); }});
}

void AddMegatron(Cases& cases) {
  const auto side = [](int64_t tp, int64_t pp, int64_t ep) {
    return ModelMesh{.tp = tp, .pp = pp, .dp = ep, .ep = ep, .etp = tp};
  };
  const auto add = [&](const ModelMesh& source, const ModelMesh& target) {
    AddModel("megatron", "Qwen3-235B", Qwen3Moe235b, source, target, Targets::kSameDevices, cases);
  };
  add(side(2, 1, 2), side(4, 1, 1));
  add(side(1, 2, 1), side(2, 4, 1));
  add(side(4, 1, 1), side(1, 1, 4));
}

Model Gpt1b() { return Gpt3(24, 2048); }
Model Gpt3b() { return Gpt3(32, 2560); }
Model Gpt7b() { return Gpt3(32, 4096); }

void AddTenplex(Cases& cases) {
  const std::vector<std::pair<std::string, Model (*)()>> models = {
      {"GPT-3 1.3B", Gpt1b}, {"GPT-3 2.7B", Gpt3b}, {"GPT-3 6.7B", Gpt7b}};
  for (const auto& [name, model] : models) {
    for (const ModelMesh& target : {ModelMesh{4, 2, 2}, ModelMesh{8, 2, 1}, ModelMesh{4, 4, 1}}) {
      AddModel("tenplex", name, model, {4, 2, 1}, target, Targets::kSameDevices, cases, 4);
    }
  }
}

// JAX's meshes (data, fsdp, tensor): fsdp cuts the dimension that tensor does not.
v1::PlanSpec FsdpSpec(const Model& model, const std::vector<int64_t>& source,
                      const std::vector<int64_t>& target) {
  const auto devices = [](const std::vector<int64_t>& m) { return m[0] * m[1] * m[2]; };
  SpecBuilder builder;
  builder.AddHosts(std::max(devices(source), devices(target)) / 8, {});
  const auto place = [&](const Weight& weight, const std::vector<int64_t>& mesh) {
    std::vector<std::vector<int>> axes(weight.shape.size());
    if (weight.tensor_dim >= 0) {
      axes[weight.tensor_dim] = {2};
      axes[1 - weight.tensor_dim] = {1};
    }
    return builder.Sharding(
        ShardyMesh({{"data", mesh[0]}, {"fsdp", mesh[1]}, {"tensor", mesh[2]}}, axes), 0,
        devices(mesh));
  };
  const auto add = [&](const std::string& name, const Weight& weight) {
    builder.Add(name, weight.shape, model.element_type, place(weight, source),
                place(weight, target));
  };
  ForEachWeight(model, add);
  return std::move(builder).Take();
}

void AddOrbax(Cases& cases) {
  const auto add = [&](const std::string& name, Model (*model)(), const std::vector<int64_t>& from,
                       const std::vector<int64_t>& to) {
    const auto shown = [](const std::vector<int64_t>& m) {
      return absl::StrCat(m[0], "-", m[1], "-", m[2]);
    };
    cases.push_back({"orbax", absl::StrCat(name, " ", shown(from), " -> ", shown(to)),
                     [=] { return FsdpSpec(model(), from, to); }});
  };
  add("Llama-70B", Llama70b, {4, 8, 4}, {1, 128, 1});
  add("Llama-70B", Llama70b, {4, 8, 4}, {1, 32, 1});
  add("Llama-70B", Llama70b, {4, 8, 4}, {4, 8, 4});
  add("Llama-8B", Llama8b, {8, 2, 1}, {1, 16, 1});
  add("Llama-8B", Llama8b, {8, 2, 1}, {1, 4, 1});
}

// Growth and shrinking where the smaller job's devices are the first of the larger one's.
void AddInPlace(Cases& cases) {
  const Targets same = Targets::kSameDevices;
  AddModel("in place", "Llama-405B", Llama405b, {8, 16, 1}, {8, 2, 32}, same, cases);
  AddModel("in place", "Llama-405B", Llama405b, {8, 2, 32}, {8, 16, 1}, same, cases);
  AddModel("in place", "Llama-70B", Llama70b, {8, 4, 1}, {8, 1, 16}, same, cases);
  AddModel("in place", "Llama-70B", Llama70b, {8, 1, 16}, {8, 4, 1}, same, cases);
  for (const auto& [before, after] :
       std::vector<std::pair<int64_t, int64_t>>{{128, 512}, {512, 128}}) {
    cases.push_back({"in place", absl::StrCat("flat ", before, " -> ", after, " x4"),
                     [=] { return FlatSpec(before, after, /*all_states=*/true); }});
  }
}

template <size_t kCount>
bool IsOneOf(const std::string& suite, const char* const (&suites)[kCount]) {
  return std::find(std::begin(suites), std::end(suites), suite) != std::end(suites);
}

// The suites whose moves are measured on hosts of all sizes too, but for their largest case, which
// would say no more.
bool HasAnyHosts(const PlannerCase& one) {
  return IsOneOf(one.suite, {"m2n", "fan-out", "elastic", "in place", "scale", "target order",
                             "megatron", "orbax"});
}

// What only hosts of these sizes show.
void AddRacks(Cases& cases) {
  const auto add = [&](int64_t devices_of_host, const std::string& name,
                       std::function<v1::PlanSpec()> spec) {
    cases.push_back({absl::StrCat("hosts of ", devices_of_host), name,
                     [=] { return OnHostsOf(devices_of_host, spec()); }});
  };
  for (const auto& [host, devices] :
       std::vector<std::pair<int64_t, int64_t>>{{8, 128}, {16, 128}, {72, 144}}) {
    add(host, absl::StrCat("Llama-405B FSDP (", devices, ") -> TP8 DP", devices / 8),
        [devices = devices] { return TrainersToReplicasSpec(devices); });
  }
  add(72, "DeepSeek-V3 FP8 whole experts (144) -> even (144)", ExpertsToEvenSpec);
  add(72, "DeepSeek-V3 FP8 layer's experts even (144) -> replicated (72)", EvenToReplicatedSpec);
  for (const std::string preset : {"gb200-nvl72", "gb300-nvl72"}) {
    cases.push_back({preset, "DeepSeek-V3 FP8 PP16 EP16 (256) -> PP8 EP16 (128)", [=] {
                       return OnHostsOfPreset(preset, 72,
                                              ModelSpec(DeepSeekFp8(), {1, 16, 16, 16, 1},
                                                        {1, 8, 16, 16, 1}, Targets::kOtherDevices));
                     }});
  }
}

// Those whose hosts belong to the case.
bool HasItsOwnHosts(const PlannerCase& one) {
  return IsOneOf(one.suite, {"alpa", "uneven", "one to many", "scaling", "tenplex"});
}

}  // namespace

std::vector<PlannerCase> HostsCases() {
  Cases cases;
  for (const PlannerCase& one : PlannerCases()) {
    if (HasItsOwnHosts(one)) cases.push_back({"their own hosts", one.name, one.spec});
    if (!HasAnyHosts(one) || one.name.find("131072") != one.name.npos) continue;
    // Growth has the name of a case on other devices.
    const std::string name = absl::StrCat(one.name, one.suite == "in place" ? ", in place" : "");
    for (const int64_t devices : {1, 4, 8, 16, 64, 72}) {
      cases.push_back({absl::StrCat("hosts of ", devices), name,
                       [=] { return OnHostsOf(devices, one.spec()); }});
    }
  }
  AddRacks(cases);
  return cases;
}

std::vector<PlannerCase> PlannerCases() {
  Cases cases;
  AddAlpa(cases);
  AddMeshes(cases);
  AddRefits(cases);
  AddElastic(cases);
  AddInPlace(cases);
  AddFlat(cases);
  AddGreatest(cases);
  AddMegatron(cases);
  AddTenplex(cases);
  AddOrbax(cases);
  return cases;
}

std::vector<PlannerCase> PlannerCasesOf(const std::string& suite) {
  Cases cases = PlannerCases();
  std::erase_if(cases, [&](const PlannerCase& one) { return one.suite != suite; });
  return cases;
}

}  // namespace remesh::testing
