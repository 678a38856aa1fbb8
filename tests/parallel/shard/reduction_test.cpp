// SPDX-License-Identifier: Apache-2.0
// Gradients of ranks that train on other samples: each counts once.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

// The rank at this place of the data group adds its own digit to the base 8: a contribution that is missing, doubled
// or divided by the number of ranks gives another number. All of them are exact in fp32.
double gradient_of(int position, std::int64_t element) {
  return std::pow(8.0, position) * static_cast<double>(1 + element % 6);
}

at::Tensor gradients_of(const ShardRank& rank) {
  return flat_of(rank.store.elements(), [&](std::int64_t i) { return gradient_of(rank.groups.data.position(), i); });
}

double sum_of(int ranks, std::int64_t element) {
  double sum = 0;
  for (int position = 0; position < ranks; ++position) sum += gradient_of(position, element);
  return sum;
}

// AdamW's first moment without memory of the steps before is the gradient itself.
Recipe remembering_nothing(Recipe recipe) {
  recipe.training.optimizer.beta1 = 0;
  return recipe;
}

Part collected(ShardRank& rank, double gradient_scale = 1) {
  rank.parameters.update(0, gradient_scale, 1);
  return {rank.parameters.owned(), rank.parameters.optimizer_states().front().values.clone()};
}

}  // namespace

TEST_CASE("every rank's gradients are in the sum once, at every stage", "[ranks]") {
  for (const ShardCase& shards : shard_cases()) {
    INFO(shards.in_words());
    const auto parts = on_ranks(remembering_nothing(shards.recipe()), shards.ranks, [](ShardRank& rank) {
      reduce_gradients(rank, gradients_of(rank) * 3);
      reduce_gradients(rank, gradients_of(rank));  // a second step: nothing of the first is left
      return collected(rank);
    });
    const std::int64_t elements = Graph::build(shards.recipe().model).parameter_count();
    const at::Tensor expected = flat_of(elements, [&](std::int64_t i) { return sum_of(shards.ranks, i); });
    CHECK(join(parts, elements).equal(expected));
  }
}

TEST_CASE("what no rank wrote in a step is zero, whatever its memory held", "[ranks]") {
  for (const ShardCase& shards : shard_cases()) {
    INFO(shards.in_words());
    const std::string skipped = "layers.0.attention.value.weight";
    const auto parts = on_ranks(remembering_nothing(shards.recipe()), shards.ranks, [&](ShardRank& rank) {
      reduce_gradients(rank, gradients_of(rank));
      reduce_gradients(rank, gradients_of(rank), skipped);
      return collected(rank);
    });
    const Graph graph = Graph::build(shards.recipe().model);
    const at::Tensor all = join(parts, graph.parameter_count());
    std::int64_t begin = 0;
    for (const Parameter& parameter : graph.parameters) {
      INFO(parameter.name);
      CHECK(all.slice(0, begin, begin + parameter.elements()).eq(0).all().item<bool>() == (parameter.name == skipped));
      begin += parameter.elements();
    }
  }
}

TEST_CASE("micro-batches of a step add up before they are reduced, and from stage 2 on after it, too", "[ranks]") {
  for (const ShardCase& shards : shard_cases()) {
    INFO(shards.in_words());
    const bool reduces_twice = shards.zero_stage >= 2;
    const auto parts = on_ranks(remembering_nothing(shards.recipe()), shards.ranks, [&](ShardRank& rank) {
      reduce_gradients(rank, gradients_of(rank));
      rank.parameters.start_step();
      write_gradients(rank, gradients_of(rank));
      write_gradients(rank, gradients_of(rank) * 2);
      if (reduces_twice) rank.parameters.reduce();
      write_gradients(rank, gradients_of(rank) * 4);
      if (shards.ranks > 1) rank.parameters.reduce();
      rank.parameters.collect();
      return collected(rank);
    });
    const std::int64_t elements = Graph::build(shards.recipe().model).parameter_count();
    const at::Tensor expected = flat_of(elements, [&](std::int64_t i) { return 7 * sum_of(shards.ranks, i); });
    CHECK(join(parts, elements).equal(expected));
  }
}

TEST_CASE("the squared norm counts each element once over all ranks", "[ranks]") {
  for (const ShardCase& shards : shard_cases()) {
    INFO(shards.in_words());
    const auto squares = on_ranks(shards.recipe(), shards.ranks, [](ShardRank& rank) {
      reduce_gradients(rank, gradients_of(rank));
      return rank.parameters.squares().item<double>();
    });
    double expected = 0;
    for (std::int64_t i = 0; i < Graph::build(shards.recipe().model).parameter_count(); ++i)
      expected += sum_of(shards.ranks, i) * sum_of(shards.ranks, i);
    double sum = 0;
    for (const double part : squares) sum += part;
    CHECK(sum == Approx(expected).epsilon(1e-6));
  }
}

TEST_CASE("the clipping coefficient multiplies the gradients of all elements", "[ranks]") {
  for (const ShardCase& shards : shard_cases()) {
    INFO(shards.in_words());
    const auto parts = on_ranks(remembering_nothing(shards.recipe()), shards.ranks, [](ShardRank& rank) {
      reduce_gradients(rank, gradients_of(rank));
      return collected(rank, 0.25);
    });
    const std::int64_t elements = Graph::build(shards.recipe().model).parameter_count();
    const at::Tensor expected = flat_of(elements, [&](std::int64_t i) { return sum_of(shards.ranks, i) / 4; });
    CHECK(join(parts, elements).equal(expected));
  }
}

TEST_CASE("a partner's gradients come before each reduction, without the padding", "[ranks]") {
  for (const ShardCase& shards : shard_cases()) {
    if (shards.ranks == 1) continue;
    INFO(shards.in_words());
    const auto parts = on_ranks(remembering_nothing(shards.recipe()), shards.ranks, [](ShardRank& rank) {
      rank.parameters.set_partner([&](const at::Tensor& flat) {
        if (flat.numel() == rank.store.elements()) flat.add_(0.5);
        return Handle();
      });
      reduce_gradients(rank, gradients_of(rank));
      return collected(rank);
    });
    const std::int64_t elements = Graph::build(shards.recipe().model).parameter_count();
    const at::Tensor expected =
        flat_of(elements, [&](std::int64_t i) { return sum_of(shards.ranks, i) + 0.5 * shards.ranks; });
    CHECK(join(parts, elements).equal(expected));
  }
}

// Ranks that share sequences hold the same parameters as ranks that share samples.
TEST_CASE("context ranks sum gradients with the data ranks", "[ranks]") {
  Recipe recipe = remembering_nothing(small_recipe());
  recipe.parallel.context = 2;
  for (std::int64_t stage = 0; stage <= 3; ++stage) {
    INFO("ZeRO-" << stage);
    recipe.parallel.zero_stage = stage;
    const auto parts = on_ranks(recipe, 4, [](ShardRank& rank) {
      reduce_gradients(rank, gradients_of(rank));
      return collected(rank);
    });
    const std::int64_t elements = Graph::build(recipe.model).parameter_count();
    CHECK(join(parts, elements).equal(flat_of(elements, [](std::int64_t i) { return sum_of(4, i); })));
  }
}

}  // namespace llmtrain::test
