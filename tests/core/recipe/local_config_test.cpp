// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
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
const Json gpt_oss_20b = Json::parse(R"({"model_type": "gpt_oss", "attention_bias": true, "experts_per_token": 4,
  "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880, "initial_context_length": 4096, "initializer_range": 0.02,
  "intermediate_size": 2880, "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
  "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
  "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
  "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
  "full_attention", "sliding_attention", "full_attention"], "max_position_embeddings": 131072,
  "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8,
  "num_local_experts": 32, "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0,
  "factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false},
  "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
  "tie_word_embeddings": false, "vocab_size": 201088})");

const Json gemma3_1b = Json::parse(R"({"model_type": "gemma3_text", "attention_bias": false,
  "attn_logit_softcapping": null, "final_logit_softcapping": null, "head_dim": 256,
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "initializer_range": 0.02, "intermediate_size": 6912,
  "max_position_embeddings": 32768, "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1,
  "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": null,
  "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6, "vocab_size": 262144})");

std::string complaint_of(Json config, const Json& patch) {
  config.merge_patch(patch);
  return complaint(config);
}

TEST_CASE("GPT-OSS's config.json is read whole", "[recipe]") {
  const ModelRecipe model = model_of(gpt_oss_20b);
  CHECK(std::vector{model.layers, model.hidden_size, model.heads, model.kv_heads, model.head_dim} ==
        std::vector<std::int64_t>{24, 2880, 64, 8, 64});
  CHECK(model.activation == Activation::clamped_swiglu);
  CHECK(model.sliding_window == SlidingWindowRecipe{128, 2, 150000, true});
  CHECK(model.attention_sinks);
  CHECK((model.bias && model.qkv_bias && !model.qk_norm && !model.post_norms && !model.tie_embeddings));
  CHECK_FALSE(model.attention_scale);
  CHECK(model.rope_scaling->type == RopeScalingType::yarn);
  CHECK(model.rope_scaling->original_max_sequence_length == 4096);
  CHECK_FALSE(model.rope_scaling->truncate);
  const MixtureOfExpertsRecipe& moe = *model.moe;
  CHECK(std::vector{moe.experts, moe.top_k, moe.ffn_hidden_size, moe.every, moe.dense_layers, moe.shared_experts} ==
        std::vector<std::int64_t>{32, 4, 2880, 1, 0, 0});
  CHECK((moe.router_bias && moe.normalize_gates && moe.capacity_factor == 0));
  // What transformers has without these keys.
  Json brief = gpt_oss_20b;
  for (const char* key : {"layer_types", "rope_scaling", "sliding_window", "rope_theta"}) brief.erase(key);
  const ModelRecipe by_default = model_of(brief);
  CHECK(by_default.sliding_window == model.sliding_window);
  CHECK(by_default.rope_scaling->attention_factor == Approx(model.rope_scaling->attention_factor));
  CHECK(by_default.rope_scaling->factor == 32);
}

TEST_CASE("Gemma 3's config.json is read whole, as older and newer versions write it", "[recipe]") {
  const ModelRecipe model = model_of(gemma3_1b);
  CHECK(std::vector{model.layers, model.hidden_size, model.heads, model.kv_heads, model.head_dim} ==
        std::vector<std::int64_t>{26, 1152, 4, 1, 256});
  CHECK(model.activation == Activation::geglu_tanh);
  CHECK(model.sliding_window == SlidingWindowRecipe{512, 6, 10000, false});
  CHECK(model.rope_theta == 1e6);
  CHECK((model.qk_norm && model.post_norms && model.tie_embeddings && !model.bias && !model.qkv_bias));
  // 1 ÷ √256 is the head's.
  CHECK_FALSE(model.attention_scale);
  CHECK(model.embedding_scale == Approx(std::sqrt(1152.0)));
  Json newer = gemma3_1b;
  for (const char* key : {"rope_theta", "rope_scaling", "rope_local_base_freq", "sliding_window_pattern"})
    newer.erase(key);
  newer["rope_parameters"] = Json::parse(R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    "full_attention": {"rope_type": "default", "rope_theta": 1000000.0}})");
  for (int layer = 0; layer < 26; ++layer)
    newer["layer_types"].push_back((layer + 1) % 6 == 0 ? "full_attention" : "sliding_attention");
  CHECK(model_of(newer) == model);
  newer["rope_parameters"]["full_attention"] = {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 1000000}};
  newer["query_pre_attn_scalar"] = 168;
  const ModelRecipe longer = model_of(newer);
  CHECK(longer.rope_scaling == RopeScalingRecipe{.factor = 8, .original_max_sequence_length = 32768});
  CHECK(longer.attention_scale == Approx(1 / std::sqrt(168.0)));
  Json older = gemma3_1b;
  older["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8}};
  CHECK(model_of(older).rope_scaling == longer.rope_scaling);
}

TEST_CASE("Layers of which none is global, or all are, are read as such", "[recipe]") {
  Json config = gpt_oss_20b;
  config["num_hidden_layers"] = 2;
  config["layer_types"] = {"sliding_attention", "sliding_attention"};
  CHECK(model_of(config).sliding_window->global_every == 0);
  config["layer_types"] = {"full_attention", "full_attention"};
  CHECK(model_of(config).sliding_window->global_every == 1);
  // Fewer layers than an interval has.
  Json few = gemma3_1b;
  few["num_hidden_layers"] = 4;
  CHECK(model_of(few).sliding_window->global_every == 0);
}

TEST_CASE("Local layers that recipe keys cannot express name the key", "[recipe]") {
  const std::vector<std::pair<std::string, Json>> of_gpt_oss{
      {"/attention_bias", {{"attention_bias", false}}},
      {"/hidden_act", {{"hidden_act", "gelu"}}},
      {"/swiglu_limit", {{"swiglu_limit", 5}}},
      {"/layer_types", {{"layer_types", {"full_attention", "sliding_attention"}}}},
      {"/layer_types",
       {{"num_hidden_layers", 3}, {"layer_types", {"full_attention", "sliding_attention", "full_attention"}}}},
      {"/layer_types", {{"num_hidden_layers", 2}, {"layer_types", {"chunked_attention", "full_attention"}}}},
      {"/num_local_experts", {{"num_local_experts", nullptr}}},
  };
  for (const auto& [key, patch] : of_gpt_oss)
    CHECK_THAT(complaint_of(gpt_oss_20b, patch), Catch::Contains("config.json: " + key + ": "));
  const std::vector<std::pair<std::string, Json>> of_gemma3{
      {"/hidden_activation", {{"hidden_activation", "silu"}}},
      {"/use_bidirectional_attention", {{"use_bidirectional_attention", true}}},
      {"/query_pre_attn_scalar", {{"query_pre_attn_scalar", 0}}},
      {"/rope_parameters/sliding_attention/rope_type",
       {{"rope_parameters", {{"sliding_attention", {{"rope_type", "linear"}}}}}}},
  };
  for (const auto& [key, patch] : of_gemma3)
    CHECK_THAT(complaint_of(gemma3_1b, patch), Catch::Contains("config.json: " + key + ": "));
  Json capped = gemma3_1b;
  capped["final_logit_softcapping"] = 30;
  CHECK_THAT(complaint(capped), Catch::Contains("/final_logit_softcapping: is not null"));
}

TEST_CASE("Mistral's window is one of all layers, unless no sequence exceeds it", "[recipe]") {
  Json config = Json::parse(R"({"model_type": "mistral", "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 128,
    "max_position_embeddings": 64, "rope_theta": 20000, "sliding_window": 16})");
  CHECK(model_of(config).sliding_window == SlidingWindowRecipe{16, 0, 20000, true});
  config["sliding_window"] = 64;
  CHECK_FALSE(model_of(config).sliding_window);
}

}  // namespace
}  // namespace llmtrain
