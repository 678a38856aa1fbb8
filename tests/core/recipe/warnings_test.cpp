// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/recipe/keys/key_table.h"
#include "core/recipe/rules/rules.h"
#include "tests/core/recipe/good_recipe.h"

namespace llmtrain::test {
namespace {

using Overrides = std::vector<Override>;

// A key that has no effect beside the settings, and a setting that gives it one.
struct Ignored {
  std::string key;
  Overrides settings;
  Override cure;
};

std::vector<Ignored> of_precision() {
  return {
      {"precision.high_precision", {"precision.high_precision.first_layers=1"}, "precision.fp8_level=O0"},
      {"precision.high_precision", {"precision.high_precision.last_layers=1"}, "precision.fp8_level=O0"},
      {"precision.high_precision", {R"(precision.high_precision.parameters=["layers.0.*"])"}, "precision.fp8_level=O3"},
      {"precision.high_precision", {"precision.high_precision.fallback_steps=5"}, "precision.fp8_level=O1"},
      {"precision.fp8_products", {"precision.fp8_products=auto"}, "precision.fp8_level=O0"},
      {"precision.product_format", {"precision.product_format=nvfp4"}, "precision.fp8_level=O0"},
      {"precision.fp8_scaling", {"precision.fp8_scaling.method=delayed"}, "precision.fp8_level=O0"},
      {"precision.fp8_scaling.margin",
       {"precision.fp8_level=O0", "precision.fp8_scaling.margin=1"},
       "precision.fp8_scaling.method=delayed"},
      {"precision.fp8_scaling.history_steps",
       {"precision.fp8_level=O1", "precision.fp8_scaling.history_steps=16"},
       "precision.fp8_scaling.method=delayed"},
      {"precision.high_precision.fallback_steps",
       {"precision.fp8_level=O1", "precision.high_precision.fallback_steps=5", "precision.gradient_scaling=pre"},
       "precision.fp8_scaling.method=delayed"},
      {"precision.high_precision.fallback_steps",
       {"precision.fp8_level=O2", "precision.high_precision.fallback_steps=5", "precision.gradient_scaling=pre"},
       "precision.gradient_scaling=inverse_root"},
      {"precision.gradient_scaling", {"precision.gradient_scaling=post"}, "precision.fp8_level=O1"},
      {"log.fp8_statistics", {"log.fp8_statistics=true"}, "precision.fp8_level=O0"},
      {"precision.loss_scale", {"precision.loss_scale.initial=1024"}, "precision.compute=fp16"},
      {"precision.loss_scale", {"precision.loss_scale.growth_steps=5"}, "precision.gradients=fp16"},
  };
}

std::vector<Ignored> of_model() {
  const Override rope = "model.position=rope", experts = "model.moe.experts=4";
  return {
      {"model.rope_theta", {"model.rope_theta=500000"}, rope},
      {"model.rope_scaling",
       {rope, R"(model.rope_scaling={"type": "linear", "factor": 2, "low_frequency_factor": 2})"},
       "model.rope_scaling.type=llama3"},
      {"model.rope_scaling",
       {rope, R"(model.rope_scaling={"type": "llama3", "factor": 2, "beta_fast": 16})"},
       "model.rope_scaling.type=yarn"},
      {"model.lora.double_quantization", {"model.lora.double_quantization=false"}, "model.lora.base=nf4"},
      {"model.moe.priority",
       {experts, "model.moe.priority=score", "model.moe.capacity_factor=0"},
       "model.moe.capacity_factor=-1"},
      {"model.moe.balance_coefficient",
       {experts, "model.moe.balance_coefficient=0.1", "model.moe.balance_loss=none"},
       "model.moe.balance_loss=gshard"},
  };
}

std::vector<Ignored> of_training() {
  return {
      {"data.curriculum.sequence_length",
       {R"(data.curriculum.sequence_length={"start": 128, "steps": 50})"},
       "data.curriculum.sequence_length.start=64"},
      {"data.curriculum.sequence_length",
       {R"(data.curriculum.sequence_length={"start": 64, "steps": 1})"},
       "data.curriculum.sequence_length.steps=50"},
      {"data.curriculum.vocabulary_rarity",
       {R"(data.curriculum.vocabulary_rarity={"start": 100, "steps": 50})"},
       "data.curriculum.vocabulary_rarity.start=1"},
      {"training.token_dropping",
       {R"(training.token_dropping={"start": 128, "steps": 50})"},
       "training.token_dropping.start=64"},
      {"data.train.0.weight",
       {R"(data.train=[{"path": "a", "weight": 2}])"},
       R"(data.train=[{"path": "a", "weight": 2}, {"path": "b"}])"},
      {"data.validation.0.weight",
       {R"(data.validation=[{"path": "a", "weight": 2}])"},
       R"(data.validation=[{"path": "a", "weight": 2}, {"path": "b"}])"},
      {"training.optimizer.muon", {"training.optimizer.muon.momentum=0.9"}, "training.optimizer.name=muon"},
      {"training.learning_rate.minimum",
       {"training.learning_rate.schedule=constant", "training.learning_rate.minimum=1e-5"},
       "training.learning_rate.schedule=wsd"},
      {"training.learning_rate.decay_steps",
       {"training.learning_rate.schedule=constant", "training.learning_rate.decay_steps=50"},
       "training.learning_rate.schedule=linear"},
      {"training.learning_rate.decay_steps",
       {"training.learning_rate.schedule=inverse_sqrt", "training.learning_rate.decay_steps=50"},
       "training.learning_rate.schedule=linear"},
      {"training.learning_rate.decay_length",
       {"training.learning_rate.decay_length=10"},
       "training.learning_rate.schedule=wsd"},
      {"training.learning_rate.decay_shape",
       {"training.learning_rate.decay_shape=cosine"},
       "training.learning_rate.schedule=wsd"},
      {"training.learning_rate.cycles",
       {"training.learning_rate.cycles=2"},
       "training.learning_rate.schedule=cosine_restarts"},
      {"training.generation",
       {"model.architecture=\"t5\"", "data.tokenizer={\"huggingface\": \"t.json\"}", "data.pairs={}",
        "training.generation={}"},
       "training.evaluate_every=10"},
      {"training.evaluate_batches", {"training.evaluate_batches=2"}, "training.evaluate_every=10"},
      {"training.spikes.window", {"training.spikes.window=64"}, "training.spikes.loss=8"},
      {"training.spikes.window", {"training.spikes.window=64"}, "training.spikes.gradient_norm=8"},
      {"training.rollbacks",
       {"training.rollbacks=1", "training.skip_limit=0", "checkpoint.every=10"},
       "training.skip_limit=3"},
      {"training.rollbacks", {"training.rollbacks=1"}, "checkpoint.every=10"},
  };
}

std::vector<Ignored> of_running() {
  return {
      {"parallel.sequence", {"parallel.sequence=true"}, "parallel.tensor=2"},
      {"parallel.zero_shard_ranks", {"parallel.data=4", "parallel.zero_shard_ranks=2"}, "parallel.zero_stage=1"},
      {"launch.node_link_speedup", {"launch.node_link_speedup=8"}, "launch.link_message_microseconds=5"},
      {"checkpoint.keep_best",
       {"checkpoint.every=10", "training.evaluate_every=10", "checkpoint.keep_best=2", "checkpoint.keep=0"},
       "checkpoint.keep=1"},
      {"checkpoint.keep_every",
       {"checkpoint.every=10", "checkpoint.keep_every=20", "checkpoint.keep=0"},
       "checkpoint.keep=1"},
      {"checkpoint.on_failure", {"checkpoint.on_failure=continue"}, "checkpoint.every=10"},
  };
}

}  // namespace

TEST_CASE("A key that has no effect beside the others is warned of, once, until it has one", "[recipe]") {
  CHECK(recipe_warnings(parse(small_recipe())).empty());
  const auto keys = key_pointers();
  for (const auto& part : {of_precision(), of_model(), of_training(), of_running()}) {
    for (auto [key, settings, cure] : part) {
      CAPTURE(key, settings, cure);
      const auto warnings = recipe_warnings(parse(small_recipe(), settings));
      REQUIRE(warnings.size() == 1);
      CHECK(warnings.front().starts_with(key + ": "));
      std::ranges::replace(key, '.', '/');
      CHECK(std::ranges::find(keys, "/" + key) != keys.end());
      settings.push_back(cure);
      CHECK(recipe_warnings(parse(small_recipe(), settings)).empty());
    }
  }
}

}  // namespace llmtrain::test
