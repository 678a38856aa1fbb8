// SPDX-License-Identifier: Apache-2.0
// Ranks that own parts of matrices update them with Muon as one rank that owns all.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test::muon {
namespace {

constexpr std::int64_t steps = 3;
constexpr double gradient_scale = 0.5;

// In sixteenths, so that sums are exact.
double gradient(std::int64_t step, std::int64_t element) {
  return std::round(16 * std::sin(1.3 * static_cast<double>(element) + static_cast<double>(step))) / 16;
}

Recipe recipe_of(const ShardCase& shards) {
  Recipe recipe = shards.recipe();
  recipe.batch.global = 6 * shards.ranks;
  recipe.training.optimizer = {.name = OptimizerKind::muon, .weight_decay = 0.3};
  return recipe;
}

struct Outcome {
  at::Tensor modules;  // weights
  Part source, momentum;
};

Outcome train(ShardRank& rank) {
  rank.parameters.initialize(3);
  for (std::int64_t step = 1; step <= steps; ++step) {
    reduce_gradients(rank, flat_of(rank.store.elements(), [&](std::int64_t i) { return gradient(step, i); }));
    rank.parameters.update(0.1 / static_cast<double>(step), gradient_scale, step);
  }
  const FlatInterval owned = rank.parameters.owned();
  const auto states = rank.parameters.optimizer_states();
  return {gathered_weights(rank),
          {owned, rank.parameters.source().clone()},
          {owned, states.size() == 1 ? states.front().values.clone() : at::Tensor{}}};
}

std::int64_t matrix_elements() {
  std::int64_t elements = 0;
  for (const Parameter& parameter : Graph::build(small_recipe().model).parameters)
    if (parameter.is_layer_matrix) elements += parameter.elements();
  return elements;
}

at::Tensor joined(const std::vector<Outcome>& ranks, Part Outcome::*part) {
  std::vector<Part> parts;
  for (const Outcome& rank : ranks) parts.push_back(rank.*part);
  return join(parts, matrix_elements());
}

void check_case(const ShardCase& shards, const std::vector<Outcome>& expected) {
  INFO(shards.in_words());
  const auto outcomes = on_ranks(recipe_of(shards), shards.ranks, train);
  const at::Tensor source = joined(outcomes, &Outcome::source);
  CHECK(source.equal(joined(expected, &Outcome::source)));
  CHECK(joined(outcomes, &Outcome::momentum).equal(joined(expected, &Outcome::momentum)));
  const auto type = shards.compute == DataType::bf16 ? at::kBFloat16 : at::kFloat;
  for (const Outcome& outcome : outcomes) CHECK(outcome.modules.equal(source.to(type).to(at::kFloat)));
}

}  // namespace

TEST_CASE("every ZeRO stage gives the bits of Muon at stage 0", "[ranks]") {
  for (const DataType compute : {DataType::fp32, DataType::bf16}) {
    for (const int ranks : {1, 2, 3, 4}) {
      const auto expected = on_ranks(recipe_of({ranks, 0, ranks, compute}), ranks, train);
      for (ShardCase shards : shard_cases()) {
        shards.compute = compute;
        if (shards.ranks == ranks) check_case(shards, expected);
      }
    }
  }
}

// Parts of 27 elements: the third matrix, of 40 like all, begins with the last element of one and ends in the second
// after that.
TEST_CASE("three ranks share a matrix", "[ranks]") {
  const auto expected = on_ranks(recipe_of({9, 0, 9}), 9, train);
  check_case({9, 3, 9}, expected);
}

}  // namespace llmtrain::test::muon
