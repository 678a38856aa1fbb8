// SPDX-License-Identifier: Apache-2.0
// Values that several blocks read: what autograd finds, and the same bits wherever the model is cut into stages.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/hash.h"
#include "core/model/token_dropping_layer.h"
#include "tests/core/model/branching_model.h"
#include "tests/core/model/small_model.h"
#include "tests/core/model/staged_passes.h"

namespace llmtrain::test {
namespace {

ModelRecipe six_layers(ModelRecipe model) {
  model.layers = 6;
  model.tie_embeddings = false;
  return model;
}

// Those of a SmallModel of branching_graph().
SmallModel::Options branching(std::vector<std::size_t> blocks = {}, at::ScalarType type = at::kFloat) {
  return {.type = type, .blocks = std::move(blocks), .make = make_summing_block};
}

// Stages that end before these blocks.
std::vector<std::vector<std::size_t>> cut_before(const std::vector<std::size_t>& cuts, std::size_t count) {
  std::vector<std::vector<std::size_t>> stages(1);
  for (std::size_t block = 0; block < count; ++block) {
    if (std::ranges::count(cuts, block) > 0) stages.emplace_back();
    stages.back().push_back(block);
  }
  return stages;
}

StagedPasses passes_of(const ModelRecipe& recipe, const std::vector<std::size_t>& cuts, const PassInput& input) {
  const std::size_t blocks = static_cast<std::size_t>(recipe.layers) + 2;
  return passes_through(cut_before(cuts, blocks), branching_graph(recipe), branching({}, at::kBFloat16), input);
}

}  // namespace

TEST_CASE("blocks that read values of several earlier ones have the gradients that autograd finds") {
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    const ModelRecipe recipe = six_layers(named.model);
    const PassInput micro = random_input(recipe);
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      SmallModel::Options options = branching({}, at::kDouble);
      options.recompute = recompute;
      SmallModel model(branching_graph(recipe), options);
      const NamedTensors parameters = differentiable(model.weights());
      const ReferenceModel reference(recipe, parameters);
      std::vector<at::Tensor> made{reference.layer(0, reference.embed(by_sequence(tokens_of(micro), micro)))};
      for (std::int64_t layer = 1; layer < 6; ++layer) {
        const std::size_t before = static_cast<std::size_t>(layer) - 1;
        at::Tensor x = layer == 2 ? made[0] : made[before];
        if (layer == 3) x = x + made[1];
        if (layer == 5) x = x + made[0];
        made.push_back(reference.layer(layer, x));
      }
      const at::Tensor losses = reference.losses(made[5], by_sequence(targets_of(micro), micro)).flatten();
      (losses.sum() * micro.context.loss_gradients[0]).backward();
      CHECK(distance(model.learn(micro), losses) < 1e-9);
      check_gradients(model.take_gradients(), gradients_of(parameters), 1e-9);
    }
  }
}

TEST_CASE("no cut changes a bit of what blocks with shared values learn") {
  const ModelRecipe recipe = six_layers(llama_model());
  const PassInput micro = random_input(recipe);
  const StagedPasses whole = passes_of(recipe, {}, micro);
  const auto check = [&](const std::vector<std::size_t>& cuts, const std::vector<std::size_t>& sent) {
    const StagedPasses cut = passes_of(recipe, cuts, micro);
    CHECK(cut.sent == sent);
    CHECK(cut.losses[0].equal(whole.losses[0]));
    check_same_bits(cut.gradients, whole.gradients);
  };
  check({1, 2, 3, 4, 5, 6, 7}, {1, 1, 2, 3, 2, 2, 1});
  check({3}, {2});
  check({4}, {3});
  check({2, 5}, {1, 2});
}

namespace {

// Counts who else holds what a block is given.
class Watched final : public BlockModule {
 public:
  Watched(std::unique_ptr<BlockModule> inner, std::vector<std::size_t>& holders)
      : inner_(std::move(inner)), holders_(holders) {}

  Output forward(Tensors inputs, const Batch& batch, const PassContext& pass) const override {
    for (const at::Tensor& input : inputs) holders_.push_back(input.use_count());
    return inner_->forward(std::move(inputs), batch, pass);
  }
  Tensors backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                   std::unique_ptr<SavedActivations> saved) const override {
    return inner_->backward(std::move(gradients), batch, pass, std::move(saved));
  }

 private:
  std::unique_ptr<BlockModule> inner_;
  std::vector<std::size_t>& holders_;
};

}  // namespace

TEST_CASE("a stage holds a value until the last of its blocks that reads it, unless a later stage does") {
  const ModelRecipe recipe = six_layers(llama_model());
  PassInput micro = random_input(recipe);
  micro.context.mode = PassMode::evaluation;
  std::vector<std::size_t> holders;
  const auto holders_of = [&](const std::vector<std::size_t>& blocks) {
    SmallModel::Options options = branching(blocks);
    options.make = [&](const BlockParameters& parameters, const StageOptions& given, KeptExchanges* kept) {
      return std::make_unique<Watched>(make_summing_block(parameters, given, kept), holders);
    };
    holders.clear();
    Tensors incoming;
    incoming.push_back(wave(21, recipe.hidden_size, 0));
    SmallModel(branching_graph(recipe), options).stage().forward(std::move(incoming), 0, micro.batch, micro.context);
    return holders;
  };
  // Layer 5 is the last that reads what layer 0 makes.
  CHECK(holders_of({2, 3, 4, 5, 6, 7}) == std::vector<std::size_t>{2, 2, 1, 1, 1, 1, 1, 1});
  CHECK(holders_of({2, 3, 4}) == std::vector<std::size_t>{2, 2, 1, 1});
}

namespace {

// A block of two inputs: a third of the first, and half of the second, of the rows that it sees.
class Mixing final : public BlockModule {
 public:
  Output forward(Tensors inputs, const Batch&, const PassContext&) const override {
    return {Tensors{inputs[0].div(3).add(inputs[1].div(2))}, nullptr};
  }
  Tensors backward(Tensors gradients, const Batch&, const PassContext&,
                   std::unique_ptr<SavedActivations>) const override {
    return {gradients[0].div(3), gradients[0].div(2)};
  }
};

}  // namespace

TEST_CASE("of a block's inputs the first one goes on where the block drops tokens") {
  PassInput micro;
  micro.batch.rows = {{.count = 3, .length = 8}};
  micro.context.kept_tokens = 5;
  const TokenDroppingLayer layer(std::make_unique<Mixing>(), stable_hash("layers.0.token_dropping"));
  const at::Tensor first = wave(24, 4, 0).requires_grad_(), second = wave(24, 4, 1).requires_grad_();
  const at::Tensor rows = kept_rows(micro.batch.sequences(), micro.context, stable_hash("layers.0.token_dropping"));
  const at::Tensor kept = at::zeros({24, 1}).index_fill_(0, rows, 1);
  const at::Tensor expected = at::where(kept.gt(0), first.div(3).add(second.div(2)), first);
  const at::Tensor dy = wave(24, 4, 2);
  (expected * dy).sum().backward();

  BlockModule::Output output = layer.forward({first.detach(), second.detach()}, micro.batch, micro.context);
  REQUIRE(output.values.size() == 1);
  CHECK(output.values[0].equal(expected));
  const Tensors gradients = layer.backward({dy.clone()}, micro.batch, micro.context, std::move(output.saved));
  REQUIRE(gradients.size() == 2);
  CHECK(gradients[0].equal(first.grad()));
  CHECK(gradients[1].equal(second.grad()));
}

}  // namespace llmtrain::test
