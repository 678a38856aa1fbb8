// SPDX-License-Identifier: Apache-2.0
// Which elements a training forward drops, and what that does to the passes.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/base/hash.h"
#include "kernels/random/dropout.h"
#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

constexpr double probability = 0.3;

ModelRecipe with_dropout(ModelRecipe model) {
  model.dropout = probability;
  return model;
}

// A model whose sites can be read off its activations: embeddings are 1; a layer's attention adds 1 to every element,
// or its feed-forward network does. Wide, so that there is something to count.
ModelRecipe readable_model() {
  ModelRecipe model = with_dropout(gpt2_model());
  model.hidden_size = 60;
  return model;
}

void set_readable(SmallModel& model) {
  for (const Parameter& parameter : model.graph().parameters) model.weight(parameter.name).zero_();
  model.weight("embedding.token.weight").fill_(1);
}

using Masks = std::map<std::string, at::Tensor>;

// What every site that drops rows multiplies a 1 with.
Masks read_masks(const PassInput& micro, PassMode mode = PassMode::training) {
  const ModelRecipe recipe = readable_model();
  PassContext context = micro.context;
  context.mode = mode;
  Masks masks;
  const auto read = [&](std::size_t block, const std::string& site, const std::string& bias) {
    SmallModel model(recipe, {.blocks = {block}});
    set_readable(model);
    at::Tensor x;
    if (!bias.empty()) {
      model.weight(bias).fill_(1);
      x = at::zeros({micro.batch.sequences().rows(), recipe.hidden_size});
    }
    masks[site] = model.stage().forward({x}, 0, micro.batch, context).values.front();
  };
  read(0, "embedding", "");
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    read(layer + 1, prefix + "attention.residual", prefix + "attention.output.bias");
    read(layer + 1, prefix + "ffn.residual", prefix + "ffn.down.bias");
  }
  return masks;
}

PassInput samples(std::int64_t first, std::int64_t count) {
  PassInput micro = random_input(gpt2_model(), 1, count, 12);
  micro.context.first_sample = first;
  return micro;
}

// The masks of a micro-batch as docs/architecture.md has them: of seed, step, site and the element's index in the
// tensor of the whole batch.
DropoutMasks expected_masks(const PassInput& micro) {
  return [micro](const std::string& site, at::IntArrayRef shape) {
    at::Tensor ones = at::ones(shape, at::kDouble);
    const std::int64_t elements = ones.numel() / micro.batch.sequences().count;
    kernels::dropout_(ones,
                      {probability, kernels::dropout_key(micro.context.seed, micro.context.step, stable_hash(site)),
                       micro.context.first_sample * elements});
    return ones;
  };
}

}  // namespace

TEST_CASE("with dropout, too, losses and gradients are those of autograd") {
  for (const NamedModel& named : all_models()) {
    const ModelRecipe recipe = with_dropout(named.model);
    const PassInput micro = random_input(recipe);
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      INFO(named.name << ", recompute " << static_cast<int>(recompute));
      SmallModel model(recipe, {.recompute = recompute, .type = at::kDouble});
      const NamedTensors parameters = differentiable(model.weights());
      const ReferenceModel reference(recipe, parameters, expected_masks(micro));
      const at::Tensor losses =
          reference.losses_of(by_sequence(tokens_of(micro), micro), by_sequence(targets_of(micro), micro));
      (losses.sum() * micro.context.loss_gradients[0]).backward();
      CHECK(distance(model.learn(micro), losses.flatten()) < 1e-10);
      check_gradients(model.take_gradients(), gradients_of(parameters), 1e-10);
    }
  }
}

TEST_CASE("every site drops its part of the elements and scales the others") {
  for (const auto& [site, mask] : read_masks(samples(0, 12))) {
    INFO(site);
    const auto count = static_cast<double>(mask.numel());
    const double dropped = mask.eq(0).sum().item<double>() / count;
    CHECK(std::abs(dropped - probability) < 5 * std::sqrt(probability * (1 - probability) / count));
    const at::Tensor kept = mask.masked_select(mask.ne(0));
    CHECK(kept.min().item<double>() == Approx(1 / (1 - probability)).epsilon(1e-6));
    CHECK(kept.max().item<double>() == Approx(1 / (1 - probability)).epsilon(1e-6));
  }
}

TEST_CASE("sites, steps and seeds drop elements of their own") {
  const PassInput micro = samples(4, 3);
  PassInput next_step = micro, other_seed = micro;
  ++next_step.context.step;
  ++other_seed.context.seed;
  std::vector<at::Tensor> all;
  for (const PassInput& each : {micro, next_step, other_seed})
    for (const auto& [site, mask] : read_masks(each)) all.push_back(mask.eq(0));
  // Two that have nothing to do with each other agree on p² + (1 − p)² of the elements.
  const double chance = probability * probability + (1 - probability) * (1 - probability);
  const double spread = std::sqrt(chance * (1 - chance) / static_cast<double>(all.front().numel()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      INFO("masks " << i << " and " << j);
      CHECK(std::abs(all[i].eq(all[j]).to(at::kDouble).mean().item<double>() - chance) < 6 * spread);
    }
  }
}

TEST_CASE("what is dropped of a sample does not depend on the samples beside it") {
  const Masks whole = read_masks(samples(0, 6)), part = read_masks(samples(2, 3));
  for (const auto& [site, mask] : part) {
    INFO(site);
    CHECK(mask.equal(whole.at(site).narrow(0, 2 * 12, 3 * 12)));
    // And samples are not dropped alike.
    CHECK_FALSE(mask.narrow(0, 0, 12).equal(mask.narrow(0, 12, 12)));
  }
}

TEST_CASE("evaluation drops nothing") {
  for (const auto& [site, ones] : read_masks(samples(0, 3), PassMode::evaluation)) {
    INFO(site);
    CHECK(ones.eq(1).all().item<bool>());
  }
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    const PassInput micro = random_input(named.model);
    // Only dropout makes attention "math": take that without it, too.
    SmallModel plain(named.model, {.attention = AttentionKernel::math}), dropping(with_dropout(named.model));
    CHECK(dropping.forward(micro, PassMode::evaluation).equal(plain.forward(micro, PassMode::evaluation)));
    CHECK_FALSE(dropping.forward(micro).equal(plain.forward(micro)));
  }
}

}  // namespace llmtrain::test
