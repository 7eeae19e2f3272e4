// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace remesh::testing {

// The weights of public models, by their published dimensions: enough to plan with.

struct Weight {
  std::string name;
  std::vector<int64_t> shape;
  int tensor_dim =
      -1;  // that tensor parallelism cuts: 0 of column-, 1 of row-parallel ones; -1: none
  bool experts = false;  // dimension 0 counts experts, which expert parallelism cuts
};

struct Model {
  std::string element_type = "bf16";
  std::vector<Weight> before;               // with the first layer
  std::vector<std::vector<Weight>> layers;  // each in one pipeline stage
  std::vector<Weight> after;                // with the last layer
};

// Calls `add` for each weight, with its name in the whole model.
void ForEachWeight(const Model& model,
                   absl::FunctionRef<void(const std::string& name, const Weight& weight)> add);

Model Llama8b();
Model Llama70b();
Model Llama405b();
Model Qwen3Dense32b();
// 235 B parameters, 128 experts.
Model Qwen3Moe235b();
Model DeepSeekV3(const std::string& element_type);
// The dimensions of DeepSeek-V3 but for 384 experts, 64 heads, one dense layer and a vocabulary of
// 163,840.
Model KimiK2(const std::string& element_type);
// GPT-3 with `layers` layers of width `width`.
Model Gpt3(int64_t layers, int64_t width);

// Stacked experts as an array each: [E, a, b] becomes E times [a, b], still marked as experts.
std::vector<Weight> EachExpert(const Weight& stacked);

}  // namespace remesh::testing
