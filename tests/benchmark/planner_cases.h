// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/request.h"

namespace remesh::testing {

// A request that planners are measured by, with what is known of the best answer.
struct PlannerCase {
  std::string name;
  ReshardRequest request;
};

// `hosts` hosts of `devices` devices, `nics` NICs of `nic` bytes per second each; device ids count
// up from `first_id`.
void AddHosts(int64_t hosts, int64_t devices, int32_t nics, double nic, int64_t first_id,
              Topology& topology);

// Alpa's nine micro-benchmarks, and the four whose numbers do not divide.
std::vector<PlannerCase> AlpaCases();
std::vector<PlannerCase> UnevenCases();
PlannerCase AllToAllCase();  // (8,8) -> (8,8), RS01R -> S01RR

// Llama-3.1-405B in bf16 between Megatron layouts (tensor, pipeline, data parallel), eight GPUs
// with a NIC each a host.
struct Megatron {
  int64_t tp = 1;
  int64_t pp = 1;
  int64_t dp = 1;

  int64_t devices() const { return tp * pp * dp; }
};
PlannerCase Llama405bCase(const Megatron& source, const Megatron& target, bool same_devices);
PlannerCase Qwen32bCase();
PlannerCase DeepSeekCase();  // every expert its own array, 2048 -> 1536
// Llama-3.1-405B with fp32 master weights and Adam moments, every array flat over all devices.
PlannerCase FlatCase(int64_t source_devices, int64_t target_devices, bool all_states);

}  // namespace remesh::testing
