// SPDX-License-Identifier: Apache-2.0
// Gradients of models with experts against central differences of their own forward in float64: no other
// implementation of the layer is involved.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

// So small that no token changes its experts, and not so small that rounding, which a difference divides by it, shows.
constexpr double shift = 3e-6;

// What a training step minimises at some weights, and which choices of tokens it rests on.
struct Objective {
  double value = 0;
  RoutingCounts chosen;
  double dropped = 0;
};

Objective objective_of(SmallModel& model, const MixtureOfExpertsRecipe& moe, const PassInput& micro) {
  const double losses = model.forward(micro).sum().item<double>();
  const RoutingSums sums = model.take_routing();
  // The routers' losses are means over the micro-batch's tokens, which are a share of the global batch, and reported
  // without their coefficients.
  const double balance = moe.balances() ? moe.balance_coefficient * sums.balance_loss : 0;
  const double routers = static_cast<double>(micro.batch.sequences().rows()) / micro.context.batch_rows *
                         (balance + moe.z_coefficient * sums.z_loss);
  return {micro.context.loss_gradients[0] * losses + routers, model.take_routing_counts(), sums.dropped_share};
}

// Parameters that are alike in all layers, by their name within a layer.
std::map<std::string, std::vector<std::string>> groups_of(const Graph& graph) {
  std::map<std::string, std::vector<std::string>> groups;
  for (const Parameter& parameter : graph.parameters) {
    const bool is_in_layer = parameter.name.starts_with("layers.");
    groups[is_in_layer ? parameter.name.substr(std::string("layers.0.").size()) : parameter.name].push_back(
        parameter.name);
  }
  return groups;
}

// A direction of length 1 in the parameters of a group.
NamedTensors random_direction(const std::vector<std::string>& names, const NamedTensors& gradients,
                              at::Generator& generator) {
  NamedTensors direction;
  double squares = 0;
  for (const std::string& name : names) {
    direction[name] = at::randn(gradients.at(name).sizes(), generator, at::kDouble);
    squares += direction[name].square().sum().item<double>();
  }
  for (auto& [name, values] : direction) values.div_(std::sqrt(squares));
  return direction;
}

struct Slope {
  double from_gradient = 0;
  double from_differences = 0;
  double gradient_norm = 0;
};

Slope slope_along(const NamedTensors& direction, const NamedTensors& gradients, SmallModel& model,
                  const MixtureOfExpertsRecipe& moe, const PassInput& micro) {
  Slope slope;
  double squares = 0;
  NamedTensors kept;
  for (const auto& [name, values] : direction) {
    kept[name] = model.weight(name).clone();
    slope.from_gradient += (gradients.at(name) * values).sum().item<double>();
    squares += gradients.at(name).square().sum().item<double>();
  }
  slope.gradient_norm = std::sqrt(squares);
  const auto at_shift = [&](double distance) {
    for (const auto& [name, values] : direction) model.weight(name).copy_(kept.at(name)).add_(values, distance);
    return objective_of(model, moe, micro);
  };
  const Objective after = at_shift(shift), before = at_shift(-shift), between = at_shift(0);
  // The choices are fixed: only where tokens choose alike does the objective have a slope.
  CHECK((after.chosen == between.chosen && before.chosen == between.chosen));
  CHECK((after.dropped == between.dropped && before.dropped == between.dropped));
  slope.from_differences = (after.value - before.value) / (2 * shift);
  return slope;
}

void check_slopes(const ModelRecipe& recipe) {
  const PassInput micro = random_input(recipe);
  SmallModel model(recipe, {.type = at::kDouble});
  model.learn(micro);
  model.take_routing();
  model.take_routing_counts();
  const NamedTensors gradients = model.take_gradients();
  at::Generator generator = at::detail::createCPUGenerator(5);
  std::map<std::string, Slope> slopes;
  double largest = 0;
  for (const auto& [group, names] : groups_of(model.graph())) {
    INFO(group);
    const NamedTensors direction = random_direction(names, gradients, generator);
    slopes[group] = slope_along(direction, gradients, model, *recipe.moe, micro);
    largest = std::max(largest, slopes[group].gradient_norm);
  }
  for (const auto& [group, slope] : slopes) {
    INFO(group << ": " << slope.from_gradient << " and " << slope.from_differences);
    // Differences have the objective's rounding, however small the gradient.
    const double size = std::max(slope.gradient_norm, 0.1 * largest);
    CHECK(std::abs(slope.from_gradient - slope.from_differences) < 1e-7 * size);
  }
}

// What transformers lacks.
std::vector<NamedModel> models_with_drops() {
  std::vector<NamedModel> models;
  for (const RouterPriority priority : {RouterPriority::position, RouterPriority::score}) {
    ModelRecipe model = with_experts(priority == RouterPriority::score ? llama_model() : gpt2_model());
    model.moe->capacity_factor = 0.7;
    model.moe->priority = priority;
    models.push_back({priority == RouterPriority::score ? "by score" : "by position", model});
  }
  ModelRecipe varied = with_experts(gpt2_model());
  varied.moe->balance_loss = BalanceLoss::load_importance;
  varied.moe->gate_noise = 1.5;
  varied.moe->capacity_factor = 0.8;
  models.push_back({"load-importance", varied});
  varied.moe->router = Router::cosine;
  varied.moe->priority = RouterPriority::score;
  varied.moe->jitter = 0.3;
  models.push_back({"all of it, with a cosine router", varied});
  return models;
}

}  // namespace

TEST_CASE("gradients of models with experts are the slopes of what they minimise") {
  for (const NamedModel& named : models_with_experts()) {
    INFO(named.name);
    check_slopes(named.model);
  }
}

TEST_CASE("so are those of experts with a capacity, also by score, with other losses and routers") {
  for (const NamedModel& named : models_with_drops()) {
    INFO(named.name);
    SmallModel model(named.model, {.type = at::kDouble});
    model.forward(random_input(named.model));
    CHECK(model.take_routing().dropped_share > 0);
    check_slopes(named.model);
  }
}

}  // namespace llmtrain::test
