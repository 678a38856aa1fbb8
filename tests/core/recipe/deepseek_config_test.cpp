// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/recipe/config_files.h"

namespace llmtrain {
namespace {

using test::complaint;
using test::Json;
using test::model_of;

// As published beside the weights, without keys that say nothing of the model.
const Json deepseek_v3 = Json::parse(R"({"model_type": "deepseek_v3", "attention_bias": false, "ep_size": 1,
  "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02,
  "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840, "moe_intermediate_size": 2048,
  "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true,
  "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
  "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "rms_norm_eps": 1e-06, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
  "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000,
  "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false, "topk_group": 4,
  "topk_method": "noaux_tc", "v_head_dim": 128, "vocab_size": 129280})");

const Json deepseek_v2_lite = Json::parse(R"({"model_type": "deepseek_v2", "attention_bias": false,
  "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840, "moe_intermediate_size": 1408,
  "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2, "norm_topk_prob": false,
  "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
  "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_theta": 10000,
  "routed_scaling_factor": 1.0, "scoring_func": "softmax", "tie_word_embeddings": false, "topk_group": 1,
  "topk_method": "greedy", "v_head_dim": 128, "vocab_size": 102400})");

TEST_CASE("DeepSeek-V3's config.json is read whole", "[recipe]") {
  const ModelRecipe model = model_of(deepseek_v3);
  CHECK(model.latent_attention == LatentAttentionRecipe{1536, 512, 128, 64, 128});
  CHECK(std::vector{model.layers, model.hidden_size, model.heads, model.kv_heads, model.head_dim} ==
        std::vector<std::int64_t>{61, 7168, 128, 128, 192});
  const MixtureOfExpertsRecipe& moe = *model.moe;
  CHECK(std::vector{moe.experts, moe.top_k, moe.every, moe.dense_layers, moe.ffn_hidden_size, moe.shared_experts,
                    moe.groups, moe.top_groups} == std::vector<std::int64_t>{256, 8, 1, 3, 2048, 1, 8, 4});
  CHECK(moe.score_function == ScoreFunction::sigmoid);
  CHECK(moe.selection_bias);
  CHECK(moe.normalize_gates);
  CHECK(moe.gate_scale == 2.5);
  CHECK(moe.capacity_factor == 0);
  REQUIRE(model.rope_scaling);
  CHECK(model.rope_scaling->factor == 40);
  CHECK(model.rope_scaling->original_max_sequence_length == 4096);
  // mscale ÷ mscale_all_dim.
  CHECK(model.rope_scaling->attention_factor == 1);
}

TEST_CASE("DeepSeek-V2-Lite's config.json has queries without a rank and chooses from all groups", "[recipe]") {
  const ModelRecipe model = model_of(deepseek_v2_lite);
  CHECK(model.latent_attention == LatentAttentionRecipe{0, 512, 128, 64, 128});
  const MixtureOfExpertsRecipe& moe = *model.moe;
  CHECK(std::vector{moe.experts, moe.top_k, moe.dense_layers, moe.shared_experts, moe.groups, moe.top_groups} ==
        std::vector<std::int64_t>{64, 6, 1, 2, 1, 1});
  CHECK(moe.score_function == ScoreFunction::softmax);
  CHECK_FALSE(moe.selection_bias);
  CHECK_FALSE(moe.normalize_gates);
}

TEST_CASE("A config.json of DeepSeek that recipe keys cannot express names the key", "[recipe]") {
  const std::vector<std::pair<std::string, Json>> patches{
      {"/attention_bias", {{"attention_bias", true}}},
      {"/hidden_act", {{"hidden_act", "gelu"}}},
      {"/qk_rope_head_dim", {{"qk_rope_head_dim", 63}}},
      {"/n_group", {{"n_group", 7}}},
      {"/first_k_dense_replace", {{"first_k_dense_replace", 61}}},
      {"/routed_scaling_factor", {{"routed_scaling_factor", 0}}},
  };
  for (const auto& [key, patch] : patches) {
    Json config = deepseek_v3;
    config.merge_patch(patch);
    CAPTURE(key);
    CHECK_THAT(complaint(config), Catch::Contains("config.json: " + key + ":"));
    CHECK_THAT(complaint(config), !Catch::Contains("\n"));
  }
  Json config = deepseek_v2_lite;
  config["topk_method"] = "other";
  CHECK_THAT(complaint(config), Catch::Contains("/topk_method: is \"other\""));
}

}  // namespace
}  // namespace llmtrain
