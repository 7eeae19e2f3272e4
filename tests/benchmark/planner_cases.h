// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/values/request.h"
#include "remesh/v1/plan.pb.h"
#include "tests/benchmark/models.h"

namespace remesh::testing {

// A question that planners are measured by, as a controller would send it. Built when asked for:
// the big ones take memory.
struct PlannerCase {
  std::string suite;
  std::string name;
  std::function<v1::PlanSpec()> spec;
};

// All of them, suite by suite (notes on where they come from: tests/benchmark/peers.json).
std::vector<PlannerCase> PlannerCases();
std::vector<PlannerCase> PlannerCasesOf(const std::string& suite);

// Those of models and flat states again, on hosts of 1 to 72 devices (OnHostsOf()), and the others
// on the hosts that they have. The suite names the hosts.
std::vector<PlannerCase> HostsCases();

// The request that a spec becomes. REQUIRES: a valid spec.
planner::ReshardRequest RequestOf(const v1::PlanSpec& spec);

// How a model is spread over pp x dp x tp devices in Megatron's order: tensor parallel fastest,
// pipeline stages slowest. Experts are over ep groups of etp devices instead, and over as many
// replicas as are left in a stage.
struct ModelMesh {
  int64_t tp = 1;
  int64_t pp = 1;
  int64_t dp = 1;
  int64_t ep = 1;
  int64_t etp = 1;

  int64_t stage_devices() const { return tp * dp; }
  int64_t devices() const { return stage_devices() * pp; }
};

enum class Targets { kSameDevices, kOtherDevices };

// `model` from one mesh to another on hosts of `devices_of_host` GPUs with a 400G NIC each.
v1::PlanSpec ModelSpec(const Model& model, const ModelMesh& source, const ModelMesh& target,
                       Targets targets, int64_t devices_of_host = 8);
// Every expert an array of its own. REQUIRES: experts have no replicas.
v1::PlanSpec ExpertsApartSpec(const Model& model, const ModelMesh& source, const ModelMesh& target);
// Llama-3.1-405B, every array flat over all devices; all_states: with fp32 master weights and
// Adam's moments.
v1::PlanSpec FlatSpec(int64_t source_devices, int64_t target_devices, bool all_states);

// Llama-3.1-405B from trainers with FSDP (dimension 0 cut over `devices`) to inference: replicas of
// TP8 on as many other devices.
v1::PlanSpec TrainersToReplicasSpec(int64_t devices);
// DeepSeek-V3's layers of experts in FP8: whole experts on 144 devices, of which 16 get none, then
// cut evenly.
v1::PlanSpec ExpertsToEvenSpec();
// The experts of one such layer: even on 144 devices, then whole on each of the first 72.
v1::PlanSpec EvenToReplicatedSpec();

// The same on other hosts: its devices are dealt to hosts of `devices_of_host` in order of their
// ids, so the last host may be partial. Each has a NIC of 50 GB/s; its fabric is 450 GB/s on hosts
// of up to 8 devices, 900 GB/s on larger ones. Domains go.
v1::PlanSpec OnHostsOf(int64_t devices_of_host, v1::PlanSpec spec);

// The same on such hosts of a preset.
v1::PlanSpec OnHostsOfPreset(const std::string& preset, int64_t devices_of_host, v1::PlanSpec spec);

// The same with a thread for each device of a host that posts its messages.
v1::PlanSpec WithPostingThreads(v1::PlanSpec spec);

// One array between two meshes (hosts, devices of a host) with one NIC a host; a sharding is
// written as in "RS01R": a letter a dimension with the mesh axes that cut it.
struct MeshSide {
  int64_t hosts = 1;
  int64_t devices = 1;
  std::string sharding;
};
v1::PlanSpec MeshSpec(const std::vector<int64_t>& shape, const MeshSide& source,
                      const MeshSide& target);

// The requests that cost most for their size. 60 arrays of 2 replicas over 512 devices, each before
// and after in a random order of its own: few atoms share holders and needers.
v1::PlanSpec RandomLayoutsSpec();
// Arrays of different shapes from rows to columns: every device sends to every other.
v1::PlanSpec RowsToColumnsSpec(int64_t arrays, int64_t devices);

}  // namespace remesh::testing
