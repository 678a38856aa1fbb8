// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/huggingface_config.h"
#include "core/huggingface/huggingface.h"
#include "tests/core/checkpoint/huggingface_fixture.h"

namespace llmtrain {
namespace {

using test::check_error;
using test::gpt2_model;
using test::Json;
using test::JsonCase;
using test::llama_model;
using test::SavedModel;
using test::Strings;

TEST_CASE("every key that disagrees with config.json is named at once") {
  const SavedModel saved(gpt2_model());
  ModelRecipe other = llama_model();
  other.layers = 3;
  other.hidden_size = 12;
  other.heads = 4;
  other.kv_heads = 1;
  other.head_dim = 5;
  other.ffn_hidden_size = 7;
  other.vocab_size = 10;
  other.max_sequence_length = 9;
  other.norm_eps = 1e-6;
  other.qk_norm = true;
  check_error(
      ExitCode::bad_recipe,
      {"/model/layers: is 3 in the recipe and 2 in ", "/model/hidden_size", "/model/heads", "/model/kv_heads",
       "/model/head_dim", "/model/ffn_hidden_size", "/model/vocab_size", "/model/max_sequence_length",
       "/model/activation", "/model/norm: is \"rmsnorm\" in the recipe and \"layernorm\" in ", "/model/norm_eps",
       "/model/position", "/model/bias", "/model/qkv_bias", "/model/qk_norm", "/model/tie_embeddings"},
      [&] { HuggingfaceWeights(saved.path(), Graph::build(other)); });
}

TEST_CASE("dropout, initialization and how rotary positions turn may differ from config.json") {
  const SavedModel llama(llama_model());
  ModelRecipe model = llama_model();
  model.dropout = 0.25;
  model.init_std = 0.5;
  model.rope_theta = 500000;
  model.max_sequence_length = 60;
  model.rope_scaling = {.type = RopeScalingType::yarn, .factor = 10, .original_max_sequence_length = 6};
  CHECK_NOTHROW(HuggingfaceWeights(llama.path(), Graph::build(model)));
  const SavedModel gpt2(gpt2_model());
  ModelRecipe learned = gpt2_model();
  learned.rope_theta = 500000;
  CHECK_NOTHROW(HuggingfaceWeights(gpt2.path(), Graph::build(learned)));
}

TEST_CASE("learned positions have weights, so that their number may not differ") {
  const SavedModel gpt2(gpt2_model());
  ModelRecipe longer = gpt2_model();
  longer.max_sequence_length = 12;
  check_error(ExitCode::bad_recipe,
              {"/model/max_sequence_length: is 12 in the recipe and 6 in ", "each learned position"},
              [&] { HuggingfaceWeights(gpt2.path(), Graph::build(longer)); });
}

TEST_CASE("sequences that are longer than the model's window of attention are refused") {
  const SavedModel saved(llama_model());
  saved.change_config([](Json& c) {
    c["model_type"] = "mistral";
    c["sliding_window"] = 8;
  });
  ModelRecipe longer = llama_model();
  longer.max_sequence_length = 8;
  CHECK_NOTHROW(HuggingfaceWeights(saved.path(), Graph::build(longer)));
  longer.max_sequence_length = 9;
  check_error(ExitCode::bad_recipe, {"/model/max_sequence_length: 9 is beyond the window of 8 tokens in "},
              [&] { HuggingfaceWeights(saved.path(), Graph::build(longer)); });
  // 4096 tokens, by transformers' default for Mistral.
  saved.change_config([](Json& c) {
    c.erase("sliding_window");
    c["max_position_embeddings"] = 4097;
  });
  const ModelRecipe windowed = model_recipe_from_huggingface(saved.path());
  CHECK(windowed.sliding_window == SlidingWindowRecipe{.tokens = 4096, .rope_theta = windowed.rope_theta});
  CHECK_NOTHROW(HuggingfaceWeights(saved.path(), Graph::build(windowed)));
  // A window that limits no sequence does not matter.
  longer.max_sequence_length = 4096;
  CHECK_NOTHROW(HuggingfaceWeights(saved.path(), Graph::build(longer)));
  longer.max_sequence_length = 4097;
  check_error(ExitCode::bad_recipe, {"/model/sliding_window"},
              [&] { HuggingfaceWeights(saved.path(), Graph::build(longer)); });
}

ModelRecipe mixtral_model() {
  ModelRecipe model = llama_model();
  model.moe = MixtureOfExpertsRecipe{.experts = 3, .top_k = 2, .ffn_hidden_size = 5, .normalize_gates = true};
  return model;
}

ModelRecipe qwen3_moe_model() {
  ModelRecipe model = mixtral_model();
  model.qk_norm = true;
  model.moe->every = 2;
  return model;
}

ModelRecipe qwen2_moe_model() {
  ModelRecipe model = mixtral_model();
  model.qkv_bias = true;
  model.moe->every = 2;
  model.moe->shared_experts = 3;
  model.moe->shared_gate = true;
  return model;
}

TEST_CASE("of experts what they compute is compared, what concerns their training is not") {
  const SavedModel saved(mixtral_model());
  ModelRecipe model = mixtral_model();
  model.ffn_hidden_size = 77;  // of dense layers, of which there are none
  model.moe->capacity_factor = 1.5;
  model.moe->priority = RouterPriority::score;
  model.moe->balance_loss = BalanceLoss::none;
  model.moe->balance_coefficient = 3;
  model.moe->z_coefficient = model.moe->jitter = 0.5;
  CHECK_NOTHROW(HuggingfaceWeights(saved.path(), Graph::build(model)));
  model.moe->top_k = 1;
  check_error(ExitCode::bad_recipe, {"/model/moe/top_k: is 1 in the recipe and 2 in "},
              [&] { HuggingfaceWeights(saved.path(), Graph::build(model)); });
}

TEST_CASE("experts are those of config.json") {
  const ModelRecipe mixtral = model_recipe_from_huggingface(SavedModel(mixtral_model()).path());
  CHECK(mixtral.moe->experts == 3);
  CHECK(mixtral.moe->top_k == 2);
  CHECK(mixtral.moe->every == 1);
  CHECK(mixtral.moe->ffn_hidden_size == 5);
  CHECK(mixtral.moe->normalize_gates);
  CHECK(mixtral.moe->capacity_factor == 0);
  ModelRecipe plain = qwen3_moe_model();
  plain.moe->normalize_gates = false;
  const ModelRecipe qwen = model_recipe_from_huggingface(SavedModel(plain).path());
  CHECK(qwen.moe->every == 2);
  CHECK(qwen.moe->ffn_hidden_size == 5);
  CHECK_FALSE(qwen.moe->normalize_gates);
  CHECK(qwen.ffn_hidden_size == plain.ffn_hidden_size);
  const ModelRecipe shared = model_recipe_from_huggingface(SavedModel(qwen2_moe_model()).path());
  CHECK(shared.moe->every == 2);
  CHECK(shared.moe->shared_experts == 3);
  CHECK(shared.moe->shared_gate);
  CHECK(shared.qkv_bias);
  CHECK_FALSE(shared.bias);
  CHECK_FALSE(shared.qk_norm);
}

TEST_CASE("weights of a model that can be planned alone are not read") {
  const SavedModel saved(mixtral_model());
  saved.change_config([](Json& c) {
    c["model_type"] = "deepseek_v2";
    c.update({{"n_routed_experts", 3}, {"q_lora_rank", nullptr}, {"kv_lora_rank", 4}, {"qk_nope_head_dim", 4}});
  });
  const ModelRecipe model = model_recipe_from_huggingface(saved.path());
  check_error(ExitCode::bad_data, {"config.json", "can be planned but not run", "/model/latent_attention"},
              [&] { HuggingfaceWeights(saved.path(), Graph::build(model)); });
}

TEST_CASE("weights of a model that runs, and of whose class none are read, are refused by what they have") {
  const SavedModel saved(mixtral_model());
  saved.change_config([](Json& c) {
    c.update({{"model_type", "gemma3_text"}, {"hidden_activation", "gelu_pytorch_tanh"}});
  });
  const ModelRecipe model = model_recipe_from_huggingface(saved.path());
  check_error(ExitCode::bad_data,
              {"config.json", "whose weights are not read", "/model/post_norms and /model/embedding_scale"},
              [&] { HuggingfaceWeights(saved.path(), Graph::build(model)); });
}

TEST_CASE("shared experts are those of Qwen2-MoE") {
  const SavedModel saved(qwen2_moe_model());
  saved.check_same();
  // Version 4 of transformers, in which it always had biases, has no key for them.
  saved.change_config([](Json& c) { c.erase("qkv_bias"); });
  saved.check_same();
  // The second of two layers has experts.
  saved.change_config([](Json& c) {
    c["decoder_sparse_step"] = 1;
    c["mlp_only_layers"] = {0};
  });
  saved.check_same();
}

TEST_CASE("what config.json says of training and our keys do not mean is said") {
  const SavedModel saved(mixtral_model());
  const auto notes = [&] { return huggingface_training_notes(saved.path()); };
  CHECK(notes().empty());
  // A coefficient of a loss that is not added says nothing.
  saved.change_config([](Json& c) { c["router_aux_loss_coef"] = 0.02; });
  CHECK(notes().empty());
  saved.change_config([](Json& c) {
    c["output_router_logits"] = true;
    c["router_jitter_noise"] = 0.1;
  });
  REQUIRE(notes().size() == 2);
  CHECK_THAT(notes()[0], Catch::Contains("config.json: /router_jitter_noise: is 0.1") && Catch::Contains("stays 0"));
  CHECK_THAT(notes()[1], Catch::Contains("/router_aux_loss_coef: is 0.02") && Catch::Contains("stays 0.01"));
  const ModelRecipe model = model_recipe_from_huggingface(saved.path());
  CHECK(model.moe->jitter == 0);
  CHECK(model.moe->balance_coefficient == 0.01);
}

const std::vector<JsonCase> gpt2_configs{
    {"another model type", [](Json& c) { c["model_type"] = "bloom"; }, {"/model_type", "\"bloom\"", "qwen3"}},
    {"no model type", [](Json& c) { c.erase("model_type"); }, {"/model_type"}},
    {"attention without scale", [](Json& c) { c["scale_attn_weights"] = false; }, {"/scale_attn_weights"}},
    {"scale by layer", [](Json& c) { c["scale_attn_by_inverse_layer_idx"] = true; }, {"/scale_attn_by_inverse"}},
    {"cross attention", [](Json& c) { c["add_cross_attention"] = true; }, {"/add_cross_attention"}},
    {"relu", [](Json& c) { c["activation_function"] = "relu"; }, {"/activation_function", "\"relu\""}},
    {"no width", [](Json& c) { c.erase("n_embd"); }, {"/n_embd: is missing"}},
    {"a text as a size", [](Json& c) { c["n_layer"] = "2"; }, {"/n_layer", "a size from 1"}},
    {"a negative size", [](Json& c) { c["n_layer"] = -2; }, {"/n_layer: is -2"}},
    {"a huge size", [](Json& c) { c["n_layer"] = 1ULL << 63; }, {"/n_layer: is 9223372036854775808"}},
    {"heads that do not divide", [](Json& c) { c["n_head"] = 3; }, {"/n_head: is 3, which does not divide"}},
    {"a text as eps", [](Json& c) { c["layer_norm_epsilon"] = "small"; }, {"/layer_norm_epsilon", "a number"}},
    {"a number as a switch", [](Json& c) { c["tie_word_embeddings"] = 1; }, {"/tie_word_embeddings", "true or false"}},
    {"a list", [](Json& c) { c = Json::array(); }, {"is not a JSON object"}},
    {"two problems",
     [](Json& c) {
       c["n_layer"] = 0;
       c["n_embd"] = 0;
     },
     {"/n_layer", "/n_embd"}},
};

const std::vector<JsonCase> llama_configs{
    {"scaled RoPE", [](Json& c) { c["rope_parameters"]["rope_type"] = "dynamic"; }, {"rope_type", "\"dynamic\""}},
    {"scaled RoPE of version 4",
     [](Json& c) {
       c["rope_scaling"] = {{"type", "longrope"}, {"factor", 2.0}};
     },
     {"/rope_scaling/rope_type", "\"longrope\""}},
    {"RoPE by layer",
     [](Json& c) {
       c["rope_parameters"] = {{"full_attention", {{"rope_theta", 1e4}}}};
     },
     {"/rope_parameters/full_attention"}},
    {"a part of the head", [](Json& c) { c["rope_parameters"]["partial_rotary_factor"] = 0.5; }, {"partial_rotary"}},
    {"RoPE that is a text", [](Json& c) { c["rope_parameters"] = "default"; }, {"/rope_parameters", "an object"}},
    {"gelu", [](Json& c) { c["hidden_act"] = "gelu"; }, {"/hidden_act", "\"gelu\""}},
    {"a sliding window of qwen",
     [](Json& c) {
       c["model_type"] = "qwen2";
       c["use_sliding_window"] = true;
       c["sliding_window"] = 4;
     },
     {"/sliding_window: is 4"}},
    {"layers of another kind",
     [](Json& c) {
       c["layer_types"] = {"full_attention", "sliding_attention"};
     },
     {"/layer_types", "sliding_attention"}},
    {"no key heads in mistral",
     [](Json& c) {
       c["model_type"] = "mistral";
       c.erase("num_key_value_heads");
     },
     {"/num_key_value_heads: is missing"}},
};

void check_configs(const ModelRecipe& model, const std::vector<JsonCase>& cases) {
  for (const JsonCase& changed : cases) {
    INFO(changed.what);
    const SavedModel saved(model);
    saved.change_config(changed.change);
    Strings parts = changed.parts;
    parts.push_back((saved.path() / "config.json").string());
    check_error(ExitCode::bad_data, parts, [&] { model_recipe_from_huggingface(saved.path()); });
    check_error(ExitCode::bad_data, parts, [&] { saved.load(); });
  }
}

TEST_CASE("a config.json of GPT-2 that our keys cannot express is refused") {
  check_configs(gpt2_model(), gpt2_configs);
}
TEST_CASE("a config.json of Llama that our keys cannot express is refused") {
  check_configs(llama_model(), llama_configs);
}

TEST_CASE("a config.json with experts that our keys cannot express is refused") {
  check_configs(mixtral_model(),
                {{"no experts", [](Json& c) { c.erase("num_local_experts"); }, {"/num_local_experts: is missing"}}});
  check_configs(
      qwen3_moe_model(),
      {{"no width", [](Json& c) { c.erase("moe_intermediate_size"); }, {"/moe_intermediate_size: is missing"}},
       {"dense layers by number", [](Json& c) { c["mlp_only_layers"] = {1}; }, {"/mlp_only_layers: is [1]"}}});
  check_configs(qwen2_moe_model(), {{"shared experts of another width",
                                     [](Json& c) { c["shared_expert_intermediate_size"] = 7; },
                                     {"/shared_expert_intermediate_size: is 7, which is not a multiple"}},
                                    {"no shared experts",
                                     [](Json& c) { c.erase("shared_expert_intermediate_size"); },
                                     {"/shared_expert_intermediate_size: is missing"}},
                                    {"the first of two layers with experts",
                                     [](Json& c) {
                                       c["decoder_sparse_step"] = 1;
                                       c["mlp_only_layers"] = {1};
                                     },
                                     {"/mlp_only_layers: is [1]; only experts in the last of every n"}}});
}

TEST_CASE("equivalent configurations are accepted") {
  const std::vector<std::function<void(Json&)>> changes{
      [](Json& c) { c["rope_scaling"] = nullptr; },
      [](Json& c) {
        c["rope_scaling"] = {{"type", "default"}};
      },
      [](Json& c) { c.erase("rope_parameters"); },
      [](Json& c) { c.erase("rope_theta"); },
      [](Json& c) {
        c["model_type"] = "mistral";
        c["sliding_window"] = nullptr;
      },
      [](Json& c) {
        c["model_type"] = "mistral";
        c["sliding_window"] = 6;
      },
      [](Json& c) { c["num_key_value_heads"] = nullptr; },
      [](Json& c) { c["head_dim"] = nullptr; },
      [](Json& c) {
        c["attention_dropout"] = 0.5;
        c["pretraining_tp"] = 1;
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    INFO("change " << i);
    const SavedModel saved(llama_model());
    saved.change_config(changes[i]);
    saved.check_same();
  }
}

TEST_CASE("the original length beside a scaling counts before the one inside, as in transformers") {
  const SavedModel saved(llama_model());
  const auto original = [&] {
    return model_recipe_from_huggingface(saved.path()).rope_scaling.value().original_max_sequence_length;
  };
  for (const std::string type : {"llama3", "yarn"}) {
    saved.change_config([&](Json& c) {
      c["rope_scaling"] = {{"rope_type", type}, {"factor", 2.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
      c.erase("original_max_position_embeddings");
    });
    CHECK(original() == 6);
    saved.change_config([](Json& c) { c["rope_scaling"]["original_max_position_embeddings"] = 4; });
    CHECK(original() == 4);
    saved.change_config([](Json& c) { c["original_max_position_embeddings"] = 3; });
    CHECK(original() == 3);
  }
}

TEST_CASE("a config.json that is not JSON is refused") {
  for (const std::string text : {"", "{", "{\"a\":1,\"a\":2}", "{\"a\":NaN}", "\xef\xbb\xbf{}"}) {
    INFO(text);
    const test::TemporaryDirectory folder;
    folder.write("config.json", text);
    check_error(ExitCode::bad_data, {"config.json", "strict JSON"},
                [&] { model_recipe_from_huggingface(folder.path()); });
  }
}

}  // namespace
}  // namespace llmtrain
