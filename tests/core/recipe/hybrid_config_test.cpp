// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/core/recipe/config_files.h"

namespace llmtrain {
namespace {

using test::complaint;
using test::Json;
using test::model_of;

// As published beside the weights, without keys that say nothing of the model.
const Json qwen3_next = Json::parse(R"({"model_type": "qwen3_next", "attention_bias": false, "decoder_sparse_step": 1,
  "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 5120, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
  "linear_num_value_heads": 32, "linear_value_head_dim": 128, "max_position_embeddings": 262144, "mlp_only_layers": [],
  "moe_intermediate_size": 512, "norm_topk_prob": true, "num_attention_heads": 16, "num_experts": 512,
  "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2, "partial_rotary_factor": 0.25,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000000, "shared_expert_intermediate_size": 512,
  "tie_word_embeddings": false, "vocab_size": 151936})");

const Json nemotron_h = Json::parse(R"({"model_type": "nemotron_h", "attention_bias": false, "attention_head_dim": 128,
  "chunk_size": 128, "conv_kernel": 4, "hidden_size": 4096,
  "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", "initializer_range": 0.02,
  "intermediate_size": 21504, "layer_norm_epsilon": 1e-05, "mamba_head_dim": 64, "mamba_hidden_act": "silu",
  "mamba_num_heads": 128, "mamba_proj_bias": false, "max_position_embeddings": 8192, "mlp_bias": false,
  "mlp_hidden_act": "relu2", "n_groups": 8, "num_attention_heads": 32, "num_hidden_layers": 52,
  "num_key_value_heads": 8, "ssm_state_size": 128, "tie_word_embeddings": false, "use_bias": false,
  "use_conv_bias": true, "vocab_size": 131072})");

Json changed(Json config, const std::string& key, const Json& value) {
  config[key] = value;
  return config;
}

TEST_CASE("Qwen3-Next's config.json has three linear layers before each with gated attention", "[recipe]") {
  const ModelRecipe model = model_of(qwen3_next);
  CHECK(model.layer_kinds == std::vector<std::string>{"linear", "linear", "linear", "attention"});
  CHECK(model.linear_attention == LinearAttentionRecipe{LinearAttentionKind::gated_delta, 16, 32, 128, 128});
  CHECK(model.attention_gate);
  CHECK(model.qk_norm);
  CHECK(model.rotary_dim == 64);
  CHECK(model.rope_theta == 1e7);
  REQUIRE(model.moe);
  CHECK(std::vector{model.moe->experts, model.moe->top_k, model.moe->shared_experts} ==
        std::vector<std::int64_t>{512, 10, 1});
  CHECK(model.moe->shared_gate);
  // As transformers 5 writes it.
  Json newer = qwen3_next;
  for (const char* key : {"full_attention_interval", "partial_rotary_factor", "rope_theta", "rope_scaling"})
    newer.erase(key);
  newer["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000000}, {"partial_rotary_factor", 0.25}};
  for (int layer = 0; layer < 48; ++layer)
    newer["layer_types"].push_back((layer + 1) % 4 == 0 ? "full_attention" : "linear_attention");
  CHECK(model_of(newer) == model);
  CHECK(model_of(changed(qwen3_next, "partial_rotary_factor", 1)).rotary_dim == std::nullopt);
}

TEST_CASE("Nemotron-H's config.json has a letter for each layer", "[recipe]") {
  const ModelRecipe model = model_of(nemotron_h);
  CHECK(model.layers == 52);
  REQUIRE(model.layer_kinds.size() == 52);
  CHECK(std::vector(model.layer_kinds.begin(), model.layer_kinds.begin() + 3) ==
        std::vector<std::string>{"linear_alone", "feed_forward_alone", "linear_alone"});
  CHECK(model.layer_kinds[7] == "attention_alone");
  CHECK(model.linear_attention == LinearAttentionRecipe{LinearAttentionKind::mamba2, 8, 128, 128, 64, 4, true, 128});
  CHECK(model.position == Position::none);
  CHECK(model.activation == Activation::squared_relu);
  CHECK(model.head_dim == 128);
  Json newer = nemotron_h;
  newer.erase("hybrid_override_pattern");
  newer["layers_block_type"] = {"mamba", "mlp", "mamba", "mlp"};
  CHECK(model_of(newer).layers == 4);
  CHECK(model_of(newer).layer_kinds == std::vector<std::string>{"linear_alone", "feed_forward_alone"});
}

TEST_CASE("Hybrid models that recipes cannot say are refused by their keys", "[recipe]") {
  CHECK_THAT(complaint(changed(nemotron_h, "hybrid_override_pattern", "ME*")),
             Catch::Contains("/hybrid_override_pattern: has \"E\""));
  CHECK_THAT(complaint(changed(nemotron_h, "hybrid_override_pattern", "")), Catch::Contains("says what each layer is"));
  CHECK_THAT(complaint(changed(nemotron_h, "mlp_hidden_act", "silu")), Catch::Contains("relu2 is needed"));
  CHECK_THAT(complaint(changed(nemotron_h, "use_bias", true)), Catch::Contains("/use_bias"));
  CHECK_THAT(complaint(changed(qwen3_next, "layer_types", {"linear_attention", "sliding_attention"})),
             Catch::Contains("/layer_types: has \"sliding_attention\""));
  CHECK_THAT(complaint(changed(qwen3_next, "layer_types", {"linear_attention"})),
             Catch::Contains("has to say of each layer"));
  for (const double share : {0.004, 0.001, -0.5, 1.5})
    CHECK_THAT(complaint(changed(qwen3_next, "partial_rotary_factor", share)), Catch::Contains("rotates no pairs"));
}

}  // namespace
}  // namespace llmtrain
