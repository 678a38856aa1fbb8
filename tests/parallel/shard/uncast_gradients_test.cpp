// SPDX-License-Identifier: Apache-2.0
// A matrix whose products have left FP8 has gradients that are not FP8 either, at every level and ZeRO stage.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/fp8_products.h"
#include "core/model/layers/fp8_history.h"
#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

Recipe leaving_recipe(const ShardCase& shards, Fp8Level level) {
  Recipe recipe = shards.recipe();
  recipe.model.hidden_size = 48;
  recipe.model.ffn_hidden_size = 80;
  recipe.precision.fp8_level = level;
  // The first moment is then the gradient itself.
  recipe.training.optimizer.beta1 = 0;
  return recipe;
}

// As after a step in which operands of the attention's projection of query, key and value have left.
Fp8History projection_has_left(const Graph& graph) {
  Fp8History history(fp8_products(graph), {Fp8ScalingMethod::delayed, 2, 0}, 1);
  history.set_state(0, {{1, 1, 1}, {0, 1}});
  return history;
}

bool is_projection(const Parameter& parameter) {
  return parameter.local_name == "attention.query.weight" || parameter.local_name == "attention.key.weight" ||
         parameter.local_name == "attention.value.weight";
}

at::Tensor own_gradients(const ShardRank& rank, int position) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(position) + 7);
  return at::randn({rank.store.elements()}, generator, at::kFloat);
}

struct Stepped {
  FlatInterval owned;
  std::vector<at::Tensor> moments;  // of the owned elements
  double squares = 0;
  at::Tensor exact;                        // the sum of all ranks' gradients
  std::vector<FlatInterval> uncast, cast;  // ranges of the store that have and have not left
};

Stepped stepped_with_left_projection(ShardRank& rank) {
  reduce_gradients(rank, own_gradients(rank, rank.groups.data.position()));
  Stepped result{rank.parameters.owned(), {}, rank.parameters.squares().item<double>(), {}, {}, {}};
  rank.parameters.update(0, 1, 1);
  result.exact = at::zeros({rank.store.elements()}, at::kDouble);
  for (int position = 0; position < rank.groups.data.ranks(); ++position) result.exact += own_gradients(rank, position);
  for (const FlatRange& range : rank.store.ranges())
    (is_projection(rank.graph.parameters[range.parameter]) ? result.uncast : result.cast)
        .push_back({range.begin, range.end});
  for (std::size_t i = 0; i < 2; ++i) {
    at::Tensor values = rank.parameters.optimizer_states().at(i).values.to(at::kDouble);
    for (std::size_t range = 0; rank.parameters.scales()->optimizer_states() > 0 && range < rank.store.ranges().size();
         ++range) {
      const FlatRange& elements = rank.store.ranges()[range];
      const FlatInterval here = intersection({elements.begin, elements.end}, result.owned);
      values.slice(0, here.begin - result.owned.begin, here.end - result.owned.begin)
          .div_(rank.parameters.scales()->state(range).scales.at(1 + i));
    }
    result.moments.push_back(values);
  }
  return result;
}

// The largest relative error of the gradients that `moment` came from, among elements that are not small; of the part
// of the intervals that the rank owns, 0 without one.
double error_of(const Stepped& rank, const at::Tensor& gradients, const std::vector<FlatInterval>& intervals) {
  double error = 0;
  for (const FlatInterval& interval : intervals) {
    const FlatInterval here = intersection(interval, rank.owned);
    if (here.count() == 0) continue;
    const at::Tensor exact = rank.exact.slice(0, here.begin, here.end).abs();
    const at::Tensor got = gradients.slice(0, here.begin - rank.owned.begin, here.end - rank.owned.begin).abs();
    error = std::max(error, ((got - exact).abs() / exact).masked_select(exact.gt(0.5)).max().item<double>());
  }
  return error;
}

}  // namespace

TEST_CASE("gradients of a layer that has left FP8 are summed and used as they are", "[ranks]") {
  for (const ShardCase& shards : shard_cases()) {
    INFO(shards.in_words());
    const Recipe recipe = leaving_recipe(shards, Fp8Level::o1);
    const Fp8History history = projection_has_left(layout_of(recipe, shards.ranks)->graph());
    double squares = 0, uncast = 0, cast = 0;
    const auto ranks = on_ranks(recipe, shards.ranks, stepped_with_left_projection, &history);
    for (const Stepped& rank : ranks) {
      squares += rank.squares;
      uncast = std::max(uncast, error_of(rank, rank.moments.at(0), rank.uncast));
      cast = std::max(cast, error_of(rank, rank.moments.at(0), rank.cast));
    }
    CHECK(uncast < 1e-6);
    CHECK(cast > 0.02);
    CHECK(squares == Approx(ranks.front().exact.square().sum().item<double>()).epsilon(0.01));
  }
}

// The second moment is in fp16: its root has 12 digits of the gradient, where E4M3 has 4.
TEST_CASE("small moments take gradients of a layer that has left FP8 as they are", "[ranks]") {
  for (const ShardCase& shards : {ShardCase{1, 0, 1}, {2, 0, 2}, {2, 1, 2}, {4, 3, 2}}) {
    INFO(shards.in_words());
    const Recipe recipe = leaving_recipe(shards, Fp8Level::o2);
    const Fp8History history = projection_has_left(layout_of(recipe, shards.ranks)->graph());
    double uncast = 0, cast = 0;
    for (const Stepped& rank : on_ranks(recipe, shards.ranks, stepped_with_left_projection, &history)) {
      const at::Tensor gradients = (rank.moments.at(1) / (1 - recipe.training.optimizer.beta2)).sqrt();
      uncast = std::max(uncast, error_of(rank, gradients, rank.uncast));
      cast = std::max(cast, error_of(rank, gradients, rank.cast));
    }
    CHECK(uncast < 0x1p-11);
    CHECK(cast > 0.02);
  }
}

// Four tensor ranks and two heads of keys and values: the first two ranks have the same one, and the last two.
TEST_CASE("tensor ranks sum gradients of the heads that they share when these have left FP8", "[ranks]") {
  Recipe recipe = leaving_recipe({1, 0, 1}, Fp8Level::o1);
  recipe.model.heads = recipe.parallel.tensor = 4;
  const Fp8History history = projection_has_left(layout_of(recipe, 4)->graph());
  struct Moments {
    double query = 0, key = 0;
  };
  const auto work = [](ShardRank& rank) {
    const auto own = static_cast<double>(rank.groups.tensor.position() + 1);
    reduce_gradients(rank, at::full({rank.store.elements()}, own, at::kFloat));
    rank.parameters.update(0, 1, 1);
    const at::Tensor moment = rank.parameters.optimizer_states().at(0).values;
    Moments found;
    for (const FlatRange& range : rank.store.ranges()) {
      const std::string& name = rank.graph.parameters[range.parameter].local_name;
      if (name == "attention.query.weight") found.query = moment[range.begin].item<double>();
      if (name == "attention.key.weight") found.key = moment[range.end - 1].item<double>();
    }
    return found;
  };
  const auto ranks = on_ranks(recipe, 4, work, &history);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(ranks[i].query == static_cast<double>(i + 1));
    CHECK(ranks[i].key == (i < 2 ? 3 : 7));
  }
}

TEST_CASE("a gradient that is not finite shows in the norm of a layer that has left FP8") {
  const Recipe recipe = leaving_recipe({1, 0, 1}, Fp8Level::o1);
  const Fp8History history = projection_has_left(layout_of(recipe, 1)->graph());
  const auto norms = on_ranks(
      recipe, 1,
      [](ShardRank& rank) {
        at::Tensor gradients = own_gradients(rank, 0);
        gradients[0] = HUGE_VALF;
        reduce_gradients(rank, gradients);
        return rank.parameters.squares().item<double>();
      },
      &history);
  CHECK_FALSE(std::isfinite(norms.front()));
}

}  // namespace llmtrain::test
