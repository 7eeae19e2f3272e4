// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmark/models.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace remesh::testing {
namespace {

void Embeddings(int64_t vocabulary, int64_t width, Model& model) {
  model.before = {{"embed_tokens", {vocabulary, width}, 0}};
  model.after = {{"norm", {width}}, {"lm_head", {vocabulary, width}, 0}};
}

std::vector<Weight> DenseLayer(int64_t width, int64_t q, int64_t kv, int64_t ffn) {
  return {{"q_proj", {q, width}, 0},
          {"k_proj", {kv, width}, 0},
          {"v_proj", {kv, width}, 0},
          {"o_proj", {width, q}, 1},
          {"gate_proj", {ffn, width}, 0},
          {"up_proj", {ffn, width}, 0},
          {"down_proj", {width, ffn}, 1},
          {"input_layernorm", {width}},
          {"post_attention_layernorm", {width}}};
}

Model Dense(int64_t layers, int64_t width, int64_t q, int64_t kv, int64_t ffn, int64_t vocabulary) {
  Model model;
  Embeddings(vocabulary, width, model);
  model.layers.assign(layers, DenseLayer(width, q, kv, ffn));
  return model;
}

void AddQkNorms(int64_t head, std::vector<Weight>& layer) {
  layer.push_back({"q_norm", {head}});
  layer.push_back({"k_norm", {head}});
}

void AddExperts(int64_t experts, int64_t width, int64_t ffn, std::vector<Weight>& layer) {
  layer.push_back({"router", {experts, width}});
  layer.push_back({"experts.gate_proj", {experts, ffn, width}, 1, true});
  layer.push_back({"experts.up_proj", {experts, ffn, width}, 1, true});
  layer.push_back({"experts.down_proj", {experts, width, ffn}, 2, true});
}

// Multi-head latent attention with layers of shared and routed experts after `dense` dense ones.
Model LatentAttention(int64_t dense, int64_t experts, int64_t heads, int64_t vocabulary,
                      const std::string& element_type) {
  constexpr int64_t kWidth = 7168, kExpertFfn = 2048, kDenseFfn = 18432;
  const std::vector<Weight> attention = {{"q_a_proj", {1536, kWidth}},
                                         {"q_b_proj", {heads * 192, 1536}, 0},
                                         {"kv_a_proj", {576, kWidth}},
                                         {"kv_b_proj", {heads * 256, 512}, 0},
                                         {"o_proj", {kWidth, heads * 128}, 1},
                                         {"q_a_layernorm", {1536}},
                                         {"kv_a_layernorm", {512}},
                                         {"input_layernorm", {kWidth}},
                                         {"post_attention_layernorm", {kWidth}}};
  const auto mlp = [](const std::string& name, int64_t ffn, std::vector<Weight>& layer) {
    layer.push_back({name + "gate_proj", {ffn, kWidth}, 0});
    layer.push_back({name + "up_proj", {ffn, kWidth}, 0});
    layer.push_back({name + "down_proj", {kWidth, ffn}, 1});
  };
  Model model{.element_type = element_type};
  Embeddings(vocabulary, kWidth, model);
  for (int64_t i = 0; i < 61; ++i) {
    std::vector<Weight>& layer = model.layers.emplace_back(attention);
    if (i < dense) {
      mlp("", kDenseFfn, layer);
      continue;
    }
    mlp("shared_expert.", kExpertFfn, layer);
    AddExperts(experts, kWidth, kExpertFfn, layer);
  }
  return model;
}

}  // namespace

void ForEachWeight(const Model& model,
                   absl::FunctionRef<void(const std::string& name, const Weight& weight)> add) {
  for (const Weight& weight : model.before) add(weight.name, weight);
  for (size_t layer = 0; layer < model.layers.size(); ++layer) {
    for (const Weight& weight : model.layers[layer]) {
      add(absl::StrCat("layers.", layer, ".", weight.name), weight);
    }
  }
  for (const Weight& weight : model.after) add(weight.name, weight);
}

Model Llama8b() { return Dense(32, 4096, 4096, 1024, 14336, 128256); }
Model Llama70b() { return Dense(80, 8192, 8192, 1024, 28672, 128256); }
Model Llama405b() { return Dense(126, 16384, 16384, 1024, 53248, 128256); }

Model Qwen3Dense32b() {
  Model model = Dense(64, 5120, 8192, 1024, 25600, 151936);
  for (auto& layer : model.layers) AddQkNorms(128, layer);
  return model;
}

Model Qwen3Moe235b() {
  constexpr int64_t kWidth = 4096;
  Model model;
  Embeddings(151936, kWidth, model);
  for (int64_t i = 0; i < 94; ++i) {
    std::vector<Weight>& layer =
        model.layers.emplace_back(std::vector<Weight>{{"q_proj", {8192, kWidth}, 0},
                                                      {"k_proj", {512, kWidth}, 0},
                                                      {"v_proj", {512, kWidth}, 0},
                                                      {"o_proj", {kWidth, 8192}, 1},
                                                      {"input_layernorm", {kWidth}},
                                                      {"post_attention_layernorm", {kWidth}}});
    AddQkNorms(128, layer);
    AddExperts(128, kWidth, 1536, layer);
  }
  return model;
}

Model DeepSeekV3(const std::string& element_type) {
  return LatentAttention(3, 256, 128, 129280, element_type);
}

Model KimiK2(const std::string& element_type) {
  return LatentAttention(1, 384, 64, 163840, element_type);
}

Model Gpt3(int64_t layers, int64_t width) {
  Model model;
  model.before = {{"word_embeddings", {51200, width}, 0}, {"position_embeddings", {2048, width}}};
  model.after = {{"final_layernorm", {width}}};
  model.layers.assign(layers, {{"query_key_value", {3 * width, width}, 0},
                               {"attention_dense", {width, width}, 1},
                               {"h_to_4h", {4 * width, width}, 0},
                               {"4h_to_h", {width, 4 * width}, 1},
                               {"input_layernorm", {width}},
                               {"post_attention_layernorm", {width}}});
  return model;
}

std::vector<Weight> EachExpert(const Weight& stacked) {
  std::vector<Weight> each;
  for (int64_t e = 0; e < stacked.shape[0]; ++e) {
    each.push_back({absl::StrCat(stacked.name, ".", e),
                    {stacked.shape.begin() + 1, stacked.shape.end()},
                    stacked.tensor_dim - 1,
                    true});
  }
  return each;
}

}  // namespace remesh::testing
