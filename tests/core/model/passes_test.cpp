// SPDX-License-Identifier: Apache-2.0
// The passes that are written by hand against autograd's of a plain model in float64.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

at::Tensor activation_of(const ModelRecipe& model, const PassInput& micro, double phase) {
  const std::int64_t rows = micro.batch.sequences().rows();
  return wave(rows, model.hidden_size, phase).to(at::kDouble);
}

std::vector<std::size_t> layers_of(const Graph& graph) {
  std::vector<std::size_t> blocks;
  for (std::size_t i = 0; i < graph.blocks.size(); ++i)
    if (graph.blocks[i].layer() != nullptr) blocks.push_back(i);
  return blocks;
}

}  // namespace

TEST_CASE("losses and every gradient are those of autograd, whatever attention and recompute") {
  for (const NamedModel& named : all_models()) {
    const PassInput micro = random_input(named.model);
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const Expected expected = reference_passes(named.model, SmallModel(named.model, {.type = type}).weights(), micro);
      for (const AttentionKernel attention : {AttentionKernel::flash, AttentionKernel::math}) {
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          INFO(named.name << (type == at::kDouble ? ", float64" : ", fp32") << ", attention "
                          << static_cast<int>(attention) << ", recompute " << static_cast<int>(recompute));
          SmallModel model(named.model, {attention, recompute, type});
          CHECK(distance(model.learn(micro), expected.losses) < tolerance_of(type));
          check_gradients(model.take_gradients(), expected.gradients, tolerance_of(type));
        }
      }
    }
  }
}

TEST_CASE("layers alone give the activation, and the gradient of their input") {
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    const PassInput micro = random_input(named.model);
    SmallModel model(named.model, {.blocks = layers_of(Graph::build(named.model))});
    const at::Tensor x = activation_of(named.model, micro, 0), dy = activation_of(named.model, micro, 1);

    const NamedTensors parameters = differentiable(model.weights());
    const ReferenceModel reference(named.model, parameters);
    const at::Tensor input = x.clone().requires_grad_();
    const at::Tensor output = reference.layer(1, reference.layer(0, by_sequence(input, micro)));
    (output.flatten(0, 1) * dy).sum().backward();

    const at::Tensor y = model.forward_of(x.to(at::kFloat), micro);
    CHECK(distance(y, output.flatten(0, 1)) < 2e-5);
    const at::Tensor dx = model.stage().backward({dy.to(at::kFloat)}, 0, micro.batch, micro.context).front();
    CHECK(distance(dx, input.grad()) < 2e-5);
    check_gradients(model.take_gradients(), gradients_of(parameters), 2e-5);
  }
}

TEST_CASE("a head alone gives the losses, and the gradient of its input") {
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    const PassInput micro = random_input(named.model);
    SmallModel model(named.model, {.blocks = {Graph::build(named.model).block_named("head")}});
    const at::Tensor x = activation_of(named.model, micro, 0);
    const ReferenceModel reference(named.model, model.weights());
    const at::Tensor input = x.clone().requires_grad_();
    const at::Tensor losses = reference.losses(by_sequence(input, micro), by_sequence(targets_of(micro), micro));
    (losses.sum() * micro.context.loss_gradients[0]).backward();

    CHECK(distance(model.forward_of(x.to(at::kFloat), micro), losses.flatten()) < 2e-5);
    CHECK(distance(model.stage().backward({}, 0, micro.batch, micro.context).front(), input.grad()) < 2e-5);
  }
}

TEST_CASE("an embedding alone gives the tokens' rows, and has no gradient of an input") {
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    const PassInput micro = random_input(named.model);
    SmallModel model(named.model, {.blocks = {Graph::build(named.model).block_named("embedding")}});
    const NamedTensors parameters = differentiable(model.weights());
    const at::Tensor dy = activation_of(named.model, micro, 1);
    const at::Tensor expected = ReferenceModel(named.model, parameters).embed(by_sequence(tokens_of(micro), micro));
    (expected.flatten(0, 1) * dy).sum().backward();

    CHECK(distance(model.forward(micro), expected.flatten(0, 1)) < 1e-6);
    CHECK(model.stage().backward({dy.to(at::kFloat)}, 0, micro.batch, micro.context).empty());
    check_gradients(model.take_gradients(), gradients_of(parameters), 1e-6);
  }
}

TEST_CASE("evaluation and logits are those of the same model, and keep nothing") {
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    const PassInput micro = random_input(named.model);
    SmallModel model(named.model);
    const ReferenceModel reference(named.model, model.weights());
    const at::Tensor tokens = by_sequence(tokens_of(micro), micro);
    CHECK(distance(model.forward(micro, PassMode::evaluation),
                   reference.losses_of(tokens, by_sequence(targets_of(micro), micro)).flatten()) < 2e-5);
    const at::Tensor hidden = reference.layer(1, reference.layer(0, reference.embed(tokens)));
    CHECK(distance(model.forward(micro, PassMode::prediction), reference.logits(hidden).flatten(0, 1)) < 2e-5);
    CHECK_THROWS_AS(model.stage().backward({}, 0, micro.batch, micro.context), std::out_of_range);
  }
}

TEST_CASE("the keys of the model that are only numbers change what it computes") {
  const auto losses_with = [](double eps, double theta) {
    ModelRecipe recipe = llama_model();
    recipe.norm_eps = eps;
    recipe.rope_theta = theta;
    return SmallModel(recipe).forward(random_input(recipe));
  };
  const at::Tensor losses = losses_with(1e-6, 10000);
  CHECK(distance(losses_with(0.1, 10000), losses) > 1e-3);
  CHECK(distance(losses_with(1e-6, 100), losses) > 1e-3);
}

}  // namespace llmtrain::test
