// SPDX-License-Identifier: Apache-2.0
// Ranks that own parts of a model's states update it as one rank that owns all.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

constexpr std::int64_t steps = 3;
constexpr double gradient_scale = 0.5;

// Constants with which decay, epsilon and bias corrections all show.
OptimizerRecipe optimizer() { return {.beta1 = 0.8, .beta2 = 0.9, .eps = 0.05, .weight_decay = 0.3}; }
double learning_rate(std::int64_t step) { return 0.1 / static_cast<double>(step); }

// The sum over all ranks; in sixteenths, so that it is exact.
double total_gradient(std::int64_t step, std::int64_t element) {
  return std::round(16 * std::sin(1.3 * static_cast<double>(element) + static_cast<double>(step))) / 16 * 24;
}

// The parts of 1 to 4 ranks, none like another: 1 = 1, 1/3 + 2/3, …
double part_of(int position, int ranks) { return 2.0 * (position + 1) / (ranks * (ranks + 1)); }

Recipe recipe_of(const ShardCase& shards) {
  Recipe recipe = shards.recipe();
  recipe.training.optimizer = optimizer();
  return recipe;
}

struct Outcome {
  at::Tensor modules;  // weights
  Part source, m, v;
};

Outcome train(ShardRank& rank) {
  rank.parameters.initialize(3);
  for (std::int64_t step = 1; step <= steps; ++step) {
    const double part = part_of(rank.groups.data.position(), rank.groups.data.ranks());
    reduce_gradients(rank,
                     flat_of(rank.store.elements(), [&](std::int64_t i) { return part * total_gradient(step, i); }));
    rank.parameters.update(learning_rate(step), gradient_scale, step);
  }
  const FlatInterval owned = rank.parameters.owned();
  const auto states = rank.parameters.optimizer_states();
  return {gathered_weights(rank),
          {owned, rank.parameters.source().clone()},
          {owned, states.at(0).values.clone()},
          {owned, states.at(1).values.clone()}};
}

struct Model {
  at::Tensor source, m, v;
};

Model joined(const std::vector<Outcome>& ranks, std::int64_t elements) {
  std::vector<Part> sources, first_moments, second_moments;
  for (const Outcome& rank : ranks) {
    sources.push_back(rank.source);
    first_moments.push_back(rank.m);
    second_moments.push_back(rank.v);
  }
  return {join(sources, elements), join(first_moments, elements), join(second_moments, elements)};
}

// By name, as GPT-2 and its successors decay: matrices and the token table.
bool decays(const std::string& name) {
  return name.find(".weight") != std::string::npos && name.find("norm") == std::string::npos &&
         name != "embedding.position.weight";
}

double exact_weight(double weight, std::int64_t element, bool does_decay) {
  const OptimizerRecipe given = optimizer();
  double m = 0, v = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const double gradient = gradient_scale * total_gradient(step, element), t = static_cast<double>(step);
    m = given.beta1 * m + (1 - given.beta1) * gradient;
    v = given.beta2 * v + (1 - given.beta2) * gradient * gradient;
    const double move =
        m / (1 - std::pow(given.beta1, t)) / (std::sqrt(v / (1 - std::pow(given.beta2, t))) + given.eps);
    weight -= learning_rate(step) * (move + (does_decay ? given.weight_decay * weight : 0));
  }
  return weight;
}

}  // namespace

TEST_CASE("one rank updates every element as AdamW's formula says, and decays matrices alone", "[ranks]") {
  for (const DataType compute : {DataType::fp32, DataType::bf16}) {
    const ShardCase alone{1, 0, 1, compute};
    INFO(alone.in_words());
    const at::Tensor first = on_ranks(recipe_of(alone), 1, [](ShardRank& rank) {
                               rank.parameters.initialize(3);
                               return rank.parameters.source().clone();
                             }).front();
    const at::Tensor last = on_ranks(recipe_of(alone), 1, train).front().source.values;
    std::int64_t element = 0;
    for (const Parameter& parameter : Graph::build(alone.recipe().model).parameters) {
      INFO(parameter.name);
      for (const std::int64_t end = element + parameter.elements(); element < end; ++element) {
        const double expected = exact_weight(first[element].item<double>(), element, decays(parameter.name));
        CHECK(last[element].item<double>() == Approx(expected).margin(2e-6));
      }
    }
  }
}

TEST_CASE("ranks update what one rank updates, at every stage", "[ranks]") {
  for (const DataType compute : {DataType::fp32, DataType::bf16}) {
    const std::int64_t elements = Graph::build(small_recipe().model).parameter_count();
    const auto alone = on_ranks(recipe_of({1, 0, 1, compute}), 1, train);
    const Model expected = joined(alone, elements);
    for (ShardCase shards : shard_cases()) {
      shards.compute = compute;
      INFO(shards.in_words());
      const auto ranks = on_ranks(recipe_of(shards), shards.ranks, train);
      const Model model = joined(ranks, elements);
      // The sum of the ranks' gradients is the same number, rounded once or not at all.
      CHECK((model.source - expected.source).abs().max().item<double>() < 1e-6);
      CHECK((model.m - expected.m).abs().max().item<double>() < 1e-6);
      CHECK((model.v - expected.v).abs().max().item<double>() < 2e-5);
      for (const Outcome& rank : ranks) CHECK(rank.modules.equal(ranks.front().modules));
    }
  }
}

TEST_CASE("every stage gives the bits of stage 0, and modules the rounded masters", "[ranks]") {
  const std::int64_t elements = Graph::build(small_recipe().model).parameter_count();
  for (const DataType compute : {DataType::fp32, DataType::bf16}) {
    const auto type = compute == DataType::bf16 ? at::kBFloat16 : at::kFloat;
    const Model expected = joined(on_ranks(recipe_of({4, 0, 4, compute}), 4, train), elements);
    for (std::int64_t stage = 1; stage <= 3; ++stage) {
      const ShardCase shards{4, stage, 4, compute};
      INFO(shards.in_words());
      const auto ranks = on_ranks(recipe_of(shards), 4, train);
      const Model model = joined(ranks, elements);
      CHECK(model.source.equal(expected.source));
      CHECK(model.m.equal(expected.m));
      CHECK(model.v.equal(expected.v));
      for (const Outcome& rank : ranks) CHECK(rank.modules.equal(model.source.to(type).to(at::kFloat)));
    }
  }
}

}  // namespace llmtrain::test
