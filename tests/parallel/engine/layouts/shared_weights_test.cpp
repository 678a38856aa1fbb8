// SPDX-License-Identifier: Apache-2.0
// Blocks of several stages that read one weight learn what they learn on one rank, and there what the sum of their
// gradients makes of it.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/parallel/engine/sharing_layout.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

const Overrides model{"model.layers=6", "model.tie_embeddings=true", "batch.micro=1"};

Recipe recipe_of(const TrainingSetting& setting, const RankCase& layout) {
  return setting.recipe(model + layout.overrides);
}

Run train_sharing(const TrainingSetting& setting, const RankCase& layout, std::int64_t steps) {
  const auto laid_out = sharing_layout(recipe_of(setting, layout), layout.ranks);
  std::vector<Run> runs(static_cast<std::size_t>(layout.ranks));
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(laid_out, communicator, at::kCPU);
    Run& run = runs[static_cast<std::size_t>(communicator.rank())];
    run = TrainingSetting::train(trainer, steps);
    run.losses.push_back(trainer.evaluate());
    run.norms.push_back(0);
  });
  for (const Run& run : runs) check_equal(run, runs.front());
  return runs.front();
}

// Layers 0, 3 and 4 read the same weights: in three stages of three ranks; in three of one rank; in two of one rank and
// one of another.
std::vector<RankCase> layouts() {
  std::vector<RankCase> cases{
      {3, {"parallel.pipeline=3", "pipeline.schedule=\"1f1b\""}},
      {6, {"parallel.pipeline=6", "pipeline.schedule=\"gpipe\""}},
      {6, {"parallel.pipeline=3", "parallel.tensor=2", "parallel.sequence=true"}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"interleaved\"", "pipeline.loops=3"}},
      {3, {"parallel.pipeline=3", "pipeline.schedule=\"breadth_first\"", "pipeline.loops=2"}},
  };
  for (int stage = 1; stage <= 3; ++stage) {
    cases.push_back({6, {zero(stage), "parallel.pipeline=3", "pipeline.schedule=\"1f1b\""}});
    cases.push_back({4, {zero(stage), "parallel.pipeline=2", "pipeline.schedule=\"interleaved\"", "pipeline.loops=3"}});
    cases.push_back(
        {4, {zero(stage), "parallel.pipeline=2", "pipeline.schedule=\"breadth_first\"", "pipeline.loops=3"}});
    cases.push_back({2, {zero(stage), "pipeline.loops=3"}});
  }
  return cases;
}

at::Tensor part_of(const at::Tensor& flat, const ParameterUnit& unit, std::size_t parameter) {
  for (const FlatRange& range : unit.store->ranges())
    if (range.parameter == parameter) return flat.slice(0, range.begin, range.end);
  FAIL("no such parameter");
  return {};
}

at::Tensor first_moment(const ParameterUnit& unit) {
  for (const OptimizerState& state : unit.parameters->optimizer_states())
    if (state.name == "m") return state.values;
  FAIL("no first moment");
  return {};
}

}  // namespace

TEST_CASE("blocks of several stages read one weight as they do on one rank", "[ranks]") {
  const TrainingSetting setting;
  const Run expected = train_sharing(setting, {1, {}}, 6);
  for (const RankCase& layout : layouts()) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_close(train_sharing(setting, layout, 6), expected, 1e-5, 1e-4);
  }
}

TEST_CASE("the gradient of a shared weight is the sum of those of equal weights") {
  const TrainingSetting setting;
  // Nothing is clipped, so that the first moment is the gradient times a constant.
  const Recipe recipe = setting.recipe(model + Overrides{"training.clip_norm=0"});
  LoneRank alone;
  Trainer sharing(sharing_layout(recipe, 1), *alone.communicator, at::kCPU);
  LoneTrainer apart(recipe);
  const ParameterUnit &shared = *sharing.model().units().front(), &own = *apart.model().units().front();
  const Graph &graph = sharing.model().graph(), &whole = apart.model().graph();
  const auto index_in = [&](const Graph& of, std::size_t layer, std::string_view name) {
    return of.index_of(of.parameter(layer + 1, name));
  };
  for (const std::string_view name : shared_names) {
    const at::Tensor first = part_of(own.parameters->source(), own, index_in(whole, 0, name));
    for (const std::size_t layer : borrowing_layers)
      part_of(own.parameters->source(), own, index_in(whole, layer, name)).copy_(first);
  }
  CHECK(sharing.step().loss == Approx(apart.step().loss).epsilon(1e-6));
  for (const std::string_view name : shared_names) {
    INFO(name);
    const at::Tensor moments = first_moment(own);
    at::Tensor sum = part_of(moments, own, index_in(whole, 0, name)).to(at::kDouble);
    for (const std::size_t layer : borrowing_layers) sum += part_of(moments, own, index_in(whole, layer, name));
    const at::Tensor got = part_of(first_moment(shared), shared, index_in(graph, 0, name)).to(at::kDouble);
    CHECK((got - sum).norm().item<double>() < 1e-5 * sum.norm().item<double>());
  }
}

}  // namespace llmtrain::test
