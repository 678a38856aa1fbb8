// SPDX-License-Identifier: Apache-2.0
// Frozen parameters stay what they were, cost no states, and change nothing of what the others learn.
#include <ATen/ops/equal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "parallel/engine/model_state.h"
#include "tests/parallel/engine/named_weights.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

const std::string layers = "model.layers=4";
// With a trained layer between frozen ones, and norms and matrices apart.
const std::string some_frozen =
    R"(training.freeze=["embedding.*", "layers.0.*", "layers.2.attention.*", "*.ffn_norm.weight"])";
// Stages of a layer each, and the first rank's of two, have no backward.
const std::string last_trained = R"(training.freeze=["embedding.*", "layers.0.*", "layers.1.*", "layers.2.*"])";
const std::vector<RankCase> whole_layers{
    {1, {"pipeline.loops=4"}},
    {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
    {2, {"parallel.pipeline=2", "pipeline.schedule=\"interleaved\"", "pipeline.loops=2"}},
    {4, {"parallel.pipeline=4"}},
};
const std::vector<RankCase> divided_layers{
    {2, {zero(2), "pipeline.loops=4"}},
    {2, {zero(3), "pipeline.loops=4", "memory.recompute=\"full\""}},
    {4, {zero(3), "pipeline.loops=2", "parallel.pipeline=2"}},
    {4, {"parallel.tensor=2", "parallel.pipeline=2", "parallel.sequence=false"}},
    {2, {"parallel.context=2", "pipeline.loops=2"}},
    {2, {zero(1), "pipeline.loops=4", "training.update_in_backward=true", "training.clip_norm=0"}},
};
const std::string tied = "model.tie_embeddings=true";
const Overrides frozen_gpt2{layers, "model.architecture=gpt2", "model.kv_heads=4", "model.ffn_hidden_size=64",
                            R"(training.freeze=["embedding.token.*", "*.bias", "layers.1.*", "final_norm.*"])"};
const Overrides frozen_experts{layers,
                               R"(model.moe={"experts": 4, "top_k": 2, "ffn_hidden_size": 24, "capacity_factor": 0})",
                               R"(training.freeze=["layers.1.*.router.*", "layers.0.ffn.experts.*", "embedding.*"])"};

bool is_frozen(const Graph& graph, const std::string& name) {
  for (const Parameter& parameter : graph.parameters)
    if (parameter.name == name) return parameter.is_frozen;
  FAIL(name);
  return false;
}

}  // namespace

TEST_CASE("frozen parameters keep their bits, and the others learn", "[trainer]") {
  const TrainingSetting setting;
  const Overrides compute = GENERATE(Overrides{}, Overrides{"precision.compute=\"bf16\""},
                                     Overrides{"precision.fp8_level=\"O0\"", "precision.compute=\"bf16\""});
  for (const Overrides& model : {Overrides{layers, some_frozen}, frozen_gpt2, frozen_experts}) {
    LoneTrainer trainer(setting.recipe(model + compute));
    const NamedWeights before = named_weights(trainer.model());
    TrainingSetting::train(trainer, 2);
    for (const auto& [name, weight] : named_weights(trainer.model())) {
      INFO(name);
      CHECK(at::equal(weight, before.at(name)) == is_frozen(trainer.model().graph(), name));
    }
    for (const TensorSlice& slice : state_slices(trainer.model()).slices) {
      const std::string parameter = slice.name.substr(0, slice.name.rfind('.'));
      if (slice.name.ends_with(".m") || slice.name.ends_with(".v") || slice.name.ends_with(".master"))
        CHECK_FALSE(is_frozen(trainer.model().graph(), parameter));
    }
  }
}

TEST_CASE("what is learned beside frozen parameters does not depend on the layout", "[ranks]") {
  const TrainingSetting setting;
  const std::vector<RankCase> cases{
      {2, {zero(1)}},
      {2, {zero(2), "pipeline.loops=2"}},
      {2, {zero(3), "pipeline.loops=4", "memory.recompute=\"full\""}},
      {4, {zero(3), "parallel.zero_shard_ranks=2", "pipeline.loops=2"}},
      {2, {"parallel.tensor=2"}},
      {2, {"parallel.tensor=2", "parallel.sequence=false", "memory.recompute=\"selective\""}},
      {2, {"parallel.context=2"}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
      {8, {"parallel.tensor=2", "parallel.pipeline=2", zero(2), "pipeline.loops=2"}},
  };
  for (const Overrides& model : {Overrides{layers, some_frozen, tied}, frozen_gpt2}) {
    const Run expected = setting.train(model + Overrides{"batch.micro=1"});
    for (const RankCase& each : cases) {
      INFO(in_words(each.ranks, each.overrides));
      const Overrides overrides = model + Overrides{"batch.micro=1"} + each.overrides;
      check_close(train_ranks(setting, each.ranks, overrides, 6), expected, 1e-5, 1e-4);
    }
  }
  const Overrides model = frozen_experts + Overrides{"batch.micro=2"};
  const Run expected = setting.train(model);
  // Also with states that are cut finer than products, and with splits of these that change: a frozen layer's experts
  // are joined as the others, and have no gradients to give back.
  const Overrides by_layer{zero(3), "pipeline.loops=4"};
  for (const RankCase& each : std::vector<RankCase>{
           {2, {"parallel.expert=2", zero(3)}},
           {4, by_layer + Overrides{"parallel.expert_slices=4"}},
           {4, by_layer + Overrides{"parallel.expert=2", "parallel.expert_slices=2", "memory.recompute=\"full\""}},
           {4, by_layer + Overrides{"parallel.expert_slices=4", "parallel.expert_tensor=\"auto\""}},
           {4, Overrides{"parallel.expert_slices=2", "parallel.zero_shard_ranks=2", zero(3)}}}) {
    INFO(in_words(each.ranks, each.overrides));
    check_close(train_ranks(setting, each.ranks, model + each.overrides, 6), expected, 1e-5, 1e-4);
  }
}

// Gradients do not depend on what is below: without clipping the first update is that of a run that trains all.
TEST_CASE("the last layers learn the same bits without a backward of those below", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model = GENERATE(
      Overrides{}, Overrides{"precision.compute=\"bf16\"", "memory.recompute=\"computation\"", "model.dropout=0.1"},
      Overrides{"model.architecture=gpt2", "model.kv_heads=4", "model.ffn_hidden_size=64", "model.dropout=0.1"},
      Overrides{R"(model.moe={"experts": 4, "top_k": 2, "ffn_hidden_size": 24})"});
  const Overrides plain = model + Overrides{layers, "training.clip_norm=0", "batch.micro=1"};
  LoneTrainer all(setting.recipe(plain));
  TrainingSetting::train(all, 1);
  const NamedWeights expected = named_weights(all.model());
  for (const RankCase& each : whole_layers) {
    INFO(in_words(each.ranks, each.overrides));
    const Recipe recipe = setting.recipe(plain + each.overrides + Overrides{last_trained});
    LocalWorld(each.ranks).run([&](Communicator& communicator) {
      Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
      TrainingSetting::train(trainer, 1);
      for (const auto& [name, weight] : named_weights(trainer.model()))
        if (!is_frozen(trainer.model().graph(), name) && !at::equal(weight, expected.at(name)))
          throw std::runtime_error(name + " has other bits");
    });
  }
}

TEST_CASE("nor does what the last layers learn depend on the layout", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model{layers, last_trained, tied, "batch.micro=1"};
  const Run expected = setting.train(model, 4), unclipped = setting.train(model + Overrides{"training.clip_norm=0"}, 4);
  for (const RankCase& each : divided_layers) {
    INFO(in_words(each.ranks, each.overrides));
    const bool is_clipped = std::ranges::count(each.overrides, "training.clip_norm=0") == 0;
    check_close(train_ranks(setting, each.ranks, model + each.overrides, 4), is_clipped ? expected : unclipped, 1e-5,
                1e-4);
  }
}

TEST_CASE("a run with frozen parameters resumes on another layout, and its weights train on unfrozen", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model = Overrides{layers, some_frozen, "batch.micro=1"};
  const Overrides compute = GENERATE(Overrides{}, Overrides{"precision.compute=\"bf16\""});
  const Run whole = setting.train(model + compute, 4);
  const auto folder = setting.directory().path() / "checkpoints";
  LocalWorld(2).run([&](Communicator& communicator) {
    const Recipe recipe = setting.recipe(model + compute + Overrides{zero(3), "pipeline.loops=2"});
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    TrainingSetting::train(trainer, 2);
    test::save(trainer, folder);
  });
  const std::filesystem::path saved = folder / "step-00000002";
  LoneTrainer resumed(setting.recipe(model + compute));
  resumed.resume(CheckpointReader(saved));
  const double tolerance = compute.empty() ? 1e-5 : 2e-2;
  const Run rest = TrainingSetting::train(resumed, 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(rest.losses[i] == Approx(whole.losses[i + 2]).epsilon(tolerance));

  // Weights alone go from a run that freezes them to one that does not, and back.
  const Overrides from{layers, "batch.micro=1", "training.init_from=\"" + saved.string() + "\""};
  LoneTrainer frozen(setting.recipe(from + compute + Overrides{some_frozen})), unfrozen(setting.recipe(from + compute));
  CHECK(unfrozen.step().loss == frozen.step().loss);
}

}  // namespace llmtrain::test
