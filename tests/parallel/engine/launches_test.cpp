// SPDX-License-Identifier: Apache-2.0
// How many launches a step takes, and how many bytes its passes over memory, as the emulated GPU counts them: beside
// the same step in LibTorch's operators, and with bounds that are today's counts, so that one more in a layer shows.
// Counts of launches do not depend on widths, so that models are narrow here.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/emulator/cuda/kernels.h"
#include "tests/emulator/torch/backend.h"
#include "tests/parallel/engine/training_setting.h"

namespace llmtrain::test {
namespace {

using Overrides = std::vector<std::string>;

struct Counts {
  std::int64_t launches = 0;
  std::int64_t bytes = 0;  // of all but matrix products and attention

  Counts operator-(const Counts& other) const { return {launches - other.launches, bytes - other.bytes}; }
};

struct Model {
  std::string_view name;
  std::int64_t layers;
  Overrides overrides;
  // A step had so many before there were kernels of our own, as the emulated GPU counted it then.
  std::int64_t launches_before;
  std::int64_t most_launches, most_launches_of_layer;
};

const Overrides gpt2{"model.architecture=gpt2", "model.hidden_size=96", "model.heads=12", "model.kv_heads=12"};

// With dropout attention holds its probabilities, whose heads need copies where there are several sequences.
Overrides with_dropout() {
  Overrides overrides = gpt2;
  overrides.insert(overrides.end(), {"model.dropout=0.1", "batch.global=1", "batch.micro=1"});
  return overrides;
}

const std::vector<Model> models{{"GPT-2 124M", 12, gpt2, 2089, 404, 31},
                                {"GPT-2 124M with dropout", 12, with_dropout(), 13571, 644, 51},
                                {"Llama of 32 layers", 32, {}, 3431, 823, 25}};
// 16 experts in each layer, two for a token.
Overrides with_experts(const std::string& level, const Overrides& more = {}) {
  Overrides overrides{"model.moe.experts=16", "model.moe.ffn_hidden_size=32", "precision.fp8_level=" + level};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

// Nobody has counted these before there were kernels.
const std::vector<Model> other_models{
    {"Llama of 32 layers in FP8", 32, {"precision.fp8_level=O0"}, 0, 3341, 104},
    {"a Llama of 2 layers in FP8 with its gradients", 2, {"precision.fp8_level=O1"}, 0, 289, 116},
    {"a Llama of 2 layers in FP8 with its states", 2, {"precision.fp8_level=O2"}, 0, 304, 111},
    {"a Llama of 2 layers in FP8 with its weights", 2, {"precision.fp8_level=O3"}, 0, 291, 101},
    {"experts in 8 layers", 8, with_experts("off"), 0, 451, 53},
    {"experts with jitter and a z-loss", 8,
     with_experts("off", {"model.moe.jitter=0.1", "model.moe.z_coefficient=0.01"}), 0, 459, 54},
    {"experts with gate noise and a load-importance loss", 8,
     with_experts("off", {"model.moe.balance_loss=load_importance"}), 0, 499, 59},
    {"experts in 8 layers in FP8", 8, with_experts("O0"), 0, 1099, 134}};

struct GpuTrainer : LoneRank, Trainer {
  explicit GpuTrainer(const Recipe& recipe) : Trainer(layout_of(recipe, 1), *communicator, {at::kCUDA, 0}) {}
};

bool is_product(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  return has("mm") || has("flash attention");
}

Counts counts_until_now() {
  Counts counts;
  emulated::NamedCounts all = emulated::named_counts();
  for (const auto& [name, launches] : all["launches"]) counts.launches += launches;
  for (const auto& [name, bytes] : all["bytes"])
    if (!is_product(name)) counts.bytes += bytes;
  return counts;
}

Counts counts_of(const Recipe& recipe, std::int64_t steps) {
  const Counts before = counts_until_now();
  {
    GpuTrainer trainer(recipe);
    TrainingSetting::train(trainer, steps);
  }
  return counts_until_now() - before;
}

// The second of two, whose memory is there already.
Counts counts_of_step(const TrainingSetting& setting, const Model& model, std::int64_t layers) {
  Overrides overrides{"model.layers=" + std::to_string(layers), "precision.compute=bf16"};
  overrides.insert(overrides.end(), model.overrides.begin(), model.overrides.end());
  const Recipe recipe = setting.recipe(overrides);
  return counts_of(recipe, 2) - counts_of(recipe, 1);
}

// What the model takes that grows by the same with each layer.
Counts counts_of_layers(const Counts& one, const Counts& two, std::int64_t layers) {
  const Counts layer = two - one;
  return {one.launches + (layers - 1) * layer.launches, one.bytes + (layers - 1) * layer.bytes};
}

}  // namespace

TEST_CASE("a step on a GPU takes few launches, and half of the bytes of LibTorch's operators at most") {
  const TrainingSetting setting;
  emulated::settings().longest_delay = 0;
  std::vector<Counts> in_operators;
  for (const Model& model : models)
    in_operators.push_back(
        counts_of_layers(counts_of_step(setting, model, 1), counts_of_step(setting, model, 2), model.layers));
  // From now on there are kernels.
  kernels::use_kernels(emulated::table_of_kernels);
  for (std::size_t i = 0; i < models.size(); ++i) {
    const Model& model = models[i];
    INFO(model.name);
    const Counts one = counts_of_step(setting, model, 1), two = counts_of_step(setting, model, 2),
                 step = counts_of_step(setting, model, model.layers);
    CHECK(step.launches == counts_of_layers(one, two, model.layers).launches);
    CHECK(step.launches <= model.most_launches);
    CHECK((two - one).launches <= model.most_launches_of_layer);
    CHECK(10 * step.launches <= 6 * model.launches_before);
    CHECK(10 * step.launches <= 6 * in_operators[i].launches);
    CHECK(2 * step.bytes <= in_operators[i].bytes);
  }
}

TEST_CASE("steps in FP8 and of experts on a GPU take no more launches than they did") {
  kernels::use_kernels(emulated::table_of_kernels);
  const TrainingSetting setting;
  emulated::settings().longest_delay = 0;
  for (const Model& model : other_models) {
    INFO(model.name);
    const Counts one = counts_of_step(setting, model, 1), two = counts_of_step(setting, model, 2);
    CHECK((two - one).launches <= model.most_launches_of_layer);
    CHECK(counts_of_layers(one, two, model.layers).launches <= model.most_launches);
  }
}

}  // namespace llmtrain::test
