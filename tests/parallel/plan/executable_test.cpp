// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/executable.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

// Recipes that need not be valid: what can run is a question of its own.
std::vector<std::string> refused(const std::function<void(Recipe&)>& change) {
  Recipe recipe;
  change(recipe);
  std::vector<std::string> pointers;
  for (const std::string& reason : not_executable(recipe)) pointers.push_back(reason.substr(0, reason.find(':')));
  return pointers;
}

using Pointers = std::vector<std::string>;

TEST_CASE("What cannot run is named by keys that exist") {
  const auto keys = key_pointers();
  const auto named = keys_not_executable();
  CHECK(named.size() > 20);
  for (const std::string& pointer : named) {
    CAPTURE(pointer);
    CHECK(std::ranges::find(keys, pointer) != keys.end());
  }
}

void windows_on_a_gpu(Recipe& recipe) {
  recipe.model.sliding_window.emplace();
  recipe.model.attention_sinks = true;
  recipe.cluster.device = DeviceKind::cuda;
}

void layers_of_other_kinds(Recipe& recipe) {
  recipe.model.attention_scale.reset(), recipe.model.post_norms = true, recipe.model.embedding_scale = 8;
  recipe.model.parallel_residual = ParallelResidual::one_norm;
  recipe.model.position = Position::none;
}

using Cases = std::vector<std::pair<Pointers, std::function<void(Recipe&)>>>;

// Each change is refused by these keys, which are among those that may be named.
void check(const Cases& cases) {
  const auto named = keys_not_executable();
  for (const auto& [expected, change] : cases) {
    CAPTURE(expected);
    CHECK(refused(change) == expected);
    for (const std::string& pointer : expected) CHECK(std::ranges::find(named, pointer) != named.end());
  }
}

TEST_CASE("Layers, adapters and products of other kinds are refused where nothing computes them") {
  check({
      {{"/model/linear_attention", "/model/layer_kinds"},
       [](Recipe& recipe) { recipe.model.linear_attention.emplace(), recipe.model.layer_kinds = {"linear"}; }},
      {{"/precision/product_format"},
       [](Recipe& recipe) {
         recipe.precision.fp8_level = Fp8Level::o0, recipe.precision.product_format = ProductFormat::nvfp4;
       }},
      {{"/model/lora/base"}, [](Recipe& recipe) { recipe.model.lora = LoraRecipe{.base = LoraBase::nf4}; }},
      {{"/model/attention_gate", "/model/rotary_dim"},
       [](Recipe& recipe) { recipe.model.attention_gate = true, recipe.model.rotary_dim = 8; }},
      {{}, layers_of_other_kinds},
      {{"/model/position", "/model/parallel_residual", "/model/post_norms", "/model/embedding_scale"},
       [](Recipe& recipe) { layers_of_other_kinds(recipe), recipe.cluster.device = DeviceKind::cuda; }},
      {{"/model/parallel_residual"},
       [](Recipe& recipe) {
         layers_of_other_kinds(recipe);
         recipe.parallel.tensor = 2, recipe.parallel.expert_tensor = 2;
       }},
      {{"/model/parallel_residual"},
       [](Recipe& recipe) { layers_of_other_kinds(recipe), recipe.precision.fp8_level = Fp8Level::o0; }},
  });
}

TEST_CASE("The host has states in FP8, too, and a disk states of CPUs as well") {
  check({
      {{},
       [](Recipe& recipe) {
         recipe.memory.offload.optimizer = StatesPlace::host, recipe.precision.fp8_level = Fp8Level::o1;
       }},
      {{},
       [](Recipe& recipe) {
         recipe.memory.offload.optimizer = StatesPlace::disk, recipe.cluster.device = DeviceKind::cpu;
         recipe.precision.fp8_level = Fp8Level::o2;
       }},
  });
}

TEST_CASE("Who reads weights alone may have any device, whatever training asked of its own") {
  Recipe recipe;
  recipe.memory.arena = true;
  recipe.memory.offload.optimizer = StatesPlace::host;
  recipe.kernels.cuda_graphs = true;
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    recipe.cluster.device = device;
    CHECK_FALSE(not_executable(recipe).empty());
    CHECK(not_executable(without_training(recipe)).empty());
    CHECK_FALSE(without_training(recipe).kernels.cuda_graphs);
  }
}

TEST_CASE("Every refusal is among the keys that may be named, and depends on its feature alone") {
  CHECK(refused([](Recipe&) {}).empty());
  check({
      {{},
       [](Recipe& recipe) {
         recipe.memory.offload = {.optimizer = StatesPlace::host, .weights = true, .activations = true};
       }},
      {{"/memory/offload/weights"},
       [](Recipe& recipe) { recipe.memory.offload.weights = true, recipe.cluster.device = DeviceKind::cpu; }},
      {{"/memory/offload/activations"},
       [](Recipe& recipe) { recipe.memory.offload.activations = true, recipe.cluster.device = DeviceKind::cpu; }},
      {{"/memory/offload/optimizer"},
       [](Recipe& recipe) {
         recipe.memory.offload.optimizer = StatesPlace::host, recipe.cluster.device = DeviceKind::cpu;
       }},
      {{"/model/lora"}, [](Recipe& recipe) { recipe.model.lora.emplace(), recipe.precision.fp8_level = Fp8Level::o0; }},
      {{"/model/latent_attention"}, [](Recipe& recipe) { recipe.model.latent_attention.emplace(); }},
      {{"/model/sliding_window", "/model/attention_sinks"}, windows_on_a_gpu},
      {{"/model/sliding_window"},
       [](Recipe& recipe) { recipe.model.sliding_window.emplace(), recipe.training.token_dropping.emplace(); }},
      {{"/model/multi_token_prediction"}, [](Recipe& recipe) { recipe.model.multi_token_prediction.emplace(); }},
      {{}, [](Recipe& recipe) { recipe.model.activation = Activation::geglu; }},
      {{}, [](Recipe& recipe) { recipe.cluster.device = DeviceKind::cuda; }},
      {{"/model/activation"},
       [](Recipe& recipe) {
         recipe.model.activation = Activation::squared_relu, recipe.cluster.device = DeviceKind::cuda;
       }},
      {{"/model/moe/router_bias", "/model/moe/gate_scale"},
       [](Recipe& recipe) { recipe.model.moe = {.router_bias = true, .gate_scale = 2}; }},
      {{"/model/moe/score_function", "/model/moe/selection_bias", "/model/moe/top_groups"},
       [](Recipe& recipe) {
         recipe.model.moe = {.score_function = ScoreFunction::sigmoid, .selection_bias = true, .groups = 2};
       }},
      // Leading dense layers run.
      {{}, [](Recipe& recipe) { recipe.model.moe = {.dense_layers = 1}; }},
      // Frozen parameters, context ranks and shards alone run.
      {{}, [](Recipe& recipe) { recipe.training.freeze = {"*"}, recipe.parallel.context = 2; }},
      {{}, [](Recipe& recipe) { recipe.parallel.zero_stage = 1, recipe.parallel.zero_shard_ranks = 3; }},
      {{"/training/freeze"},
       [](Recipe& recipe) { recipe.training.freeze = {"*"}, recipe.precision.fp8_level = Fp8Level::o1; }},
      {{"/parallel/context"},
       [](Recipe& recipe) { recipe.training.token_dropping.emplace(), recipe.parallel.context = 2; }},
      {{"/parallel/zero_shard_ranks"},
       [](Recipe& recipe) {
         recipe.model.moe.emplace(), recipe.parallel.expert = 2, recipe.parallel.zero_shard_ranks = 3;
       }},
      {{"/data/tokenizer"},
       [](Recipe& recipe) {
         recipe.data.fine_tuning.emplace(), recipe.data.tokenizer.kind = TokenizerKind::sentencepiece;
       }},
      {{"/launch/node_link_speedup"}, [](Recipe& recipe) { recipe.launch.node_link_speedup = 2; }},
      {{},
       [](Recipe& recipe) {
         recipe.launch.node_link_speedup = 2, recipe.launch.backend = CommunicationBackend::local;
       }},
  });
}

}  // namespace
}  // namespace llmtrain
