// SPDX-License-Identifier: Apache-2.0
// A model whose layers differ learns the same in every layout.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/parallel/engine/differing_layout.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

const Overrides model{"model.layers=5", "model.tie_embeddings=true", "batch.micro=2"};

struct Trained {
  Run run;
  std::map<std::string, at::Tensor> weights;  // in float64
};

std::map<std::string, at::Tensor> weights_of(const std::filesystem::path& checkpoint, const Graph& graph) {
  const CheckpointReader reader(checkpoint);
  std::map<std::string, at::Tensor> weights;
  for (const Parameter& parameter : graph.parameters) {
    at::Tensor stored = at::empty(parameter.shape, at::kFloat);
    reader.read_box(parameter.name, {std::vector<std::int64_t>(parameter.shape.size()), parameter.shape},
                    {static_cast<std::byte*>(stored.data_ptr()), stored.nbytes()});
    weights[parameter.name] = stored.to(at::kDouble);
  }
  return weights;
}

Trained train(const TrainingSetting& setting, const RankCase& layout, std::int64_t steps) {
  const TemporaryDirectory folder;
  const auto laid_out = differing_layout(setting.recipe(model + layout.overrides), layout.ranks);
  std::vector<Run> runs(static_cast<std::size_t>(layout.ranks));
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(laid_out, communicator, at::kCPU);
    Run& run = runs[static_cast<std::size_t>(communicator.rank())];
    run = TrainingSetting::train(trainer, steps);
    save(trainer, folder.path());
  });
  for (const Run& run : runs) check_equal(run, runs.front());
  return {runs.front(), weights_of(folder.path() / ("step-0000000" + std::to_string(steps)), laid_out->graph())};
}

const std::vector<RankCase> differing_layouts{
    {2, {"parallel.tensor=2"}},
    {4, {"parallel.tensor=4", "parallel.sequence=true"}},
    {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
    {2, {"parallel.context=2"}},
    {2, {zero(3), "pipeline.loops=5"}},
    {4, {zero(1), "parallel.tensor=2", "parallel.sequence=true", "memory.recompute=\"full\""}},
    {8, {zero(3), "parallel.tensor=2", "parallel.pipeline=2", "pipeline.loops=2", "memory.recompute=\"selective\""}},
};

}  // namespace

TEST_CASE("layers that differ learn in every layout as on one rank", "[ranks]") {
  const TrainingSetting setting;
  const Trained before = train(setting, {1, {}}, 1), expected = train(setting, {1, {}}, 6);
  for (const RankCase& layout : differing_layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Trained trained = train(setting, layout, 6);
    check_close(trained.run, expected.run, 1e-5, 1e-4);
    for (const auto& [name, weight] : expected.weights) {
      INFO(name);
      const double change = (weight - before.weights.at(name)).norm().item<double>();
      CHECK((trained.weights.at(name) - weight).norm().item<double>() <= 2e-3 * change);
    }
  }
}

TEST_CASE("ranks that do not divide a layer's heads or features are refused") {
  const TrainingSetting setting;
  const auto refusal = [&](const Graph& graph, int ranks) {
    Recipe recipe = setting.recipe(model + Overrides{"parallel.tensor=" + std::to_string(ranks)});
    recipe.launch.ranks = ranks;
    try {
      Partition::make(recipe, ranks, std::make_shared<const Graph>(graph));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const ModelRecipe whole = setting.recipe(model).model;
  ModelRecipe narrow = whole, few_heads = whole;
  narrow.ffn_hidden_size = 22;
  few_heads.heads = few_heads.kv_heads = 6;
  const auto with_third = [&](const ModelRecipe& third) {
    return with_layers(Graph::build(whole), {{2, Graph::build(third)}});
  };
  CHECK(refusal(with_third(narrow), 2).empty());
  CHECK(refusal(with_third(narrow), 4) ==
        "/parallel/tensor: 4 does not divide the 22 units of layers.2.ffn.gate.weight; must divide them");
  CHECK(refusal(with_third(few_heads), 4) ==
        "/parallel/tensor: 4 does not divide the 6 units of layers.2.attention.query.weight; must divide them");
}

}  // namespace llmtrain::test
