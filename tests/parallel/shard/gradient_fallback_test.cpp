// SPDX-License-Identifier: Apache-2.0
// Gradients whose sums saturate in several steps in a row leave FP8, as all ranks count them.
#include "parallel/shard/states/gradient_fallback.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

constexpr double too_many = 2 * most_saturated;

std::vector<std::size_t> leaving_after(GradientFallback& gradients, const std::vector<double>& shares) {
  std::vector<std::size_t> matrices;
  for (const GradientFallback::Fallback& left : gradients.record(shares)) matrices.push_back(left.matrix);
  return matrices;
}

Recipe saturating_recipe(const ShardCase& shards) {
  Recipe recipe = shards.recipe();
  recipe.model.hidden_size = 48;
  recipe.model.ffn_hidden_size = 80;
  recipe.precision.fp8_level = Fp8Level::o1;
  recipe.precision.gradient_scaling = GradientScaling::post;
  recipe.precision.high_precision.fallback_steps = 2;
  // The first moment is then the gradient itself.
  recipe.training.optimizer.beta1 = 0;
  return recipe;
}

// The up projection has 1 where the index is even, else 1/8: with the scale of 1, which is 256, sums over two ranks and
// more of the former are beyond 448, and those of the latter are not. Elsewhere the first rank alone has 1.
at::Tensor alternating_gradients(const ShardRank& rank) {
  at::Tensor flat = at::full({rank.store.elements()}, rank.groups.data.position() == 0 ? 1 : 0, at::kFloat);
  for (const FlatRange& range : rank.store.ranges())
    if (rank.graph.parameters[range.parameter].local_name == "ffn.up.weight")
      flat.slice(0, range.begin, range.end).fill_(0.125).slice(0, 0, c10::nullopt, 2).fill_(1);
  return flat;
}

struct Leaving {
  std::vector<std::vector<double>> shares;         // by step
  std::vector<std::vector<std::size_t>> matrices;  // that leave after the step
  bool sums_are_exact = false;                     // in the last step
};

// Three steps, the shares being those of this rank alone.
Leaving steps_of(ShardRank& rank) {
  Leaving found;
  for (std::int64_t step = 1; step <= 3; ++step) {
    reduce_gradients(rank, alternating_gradients(rank));
    read_saturated(rank);
    found.shares.push_back(rank.fallback.take_shares());
    found.matrices.push_back(leaving_after(rank.fallback, found.shares.back()));
    rank.parameters.update(0, 1, step);
  }
  at::Tensor exact = alternating_gradients(rank);
  for (const FlatRange& range : rank.store.ranges()) {
    const at::Tensor here = exact.slice(0, range.begin, range.end);
    if (rank.graph.parameters[range.parameter].local_name == "ffn.up.weight")
      here.mul_(rank.groups.data.ranks());
    else
      here.fill_(1);
  }
  const FlatInterval owned = rank.parameters.owned();
  const at::Tensor moment = rank.parameters.optimizer_states().at(0).values.slice(0, 0, owned.count());
  found.sums_are_exact = moment.equal(exact.slice(0, owned.begin, owned.end));
  return found;
}

}  // namespace

TEST_CASE("gradients leave after so many steps in a row in which too many of their sums saturate") {
  using Matrices = std::vector<std::size_t>;
  GradientFallback gradients({3, 8}, 3);
  CHECK(leaving_after(gradients, {too_many, too_many}).empty());
  CHECK(leaving_after(gradients, {too_many, too_many}).empty());
  // As many as auto-scaling tolerates begin anew.
  CHECK(leaving_after(gradients, {most_saturated, too_many}) == Matrices{8});
  CHECK((gradients.has_left(8) && !gradients.has_left(3)));
  CHECK(leaving_after(gradients, {too_many, 0}).empty());
  CHECK(leaving_after(gradients, {too_many, too_many}).empty());
  // The second does not leave again.
  CHECK(leaving_after(gradients, {too_many, too_many}) == Matrices{3});
  CHECK(gradients.has_left(3));
}

TEST_CASE("what a checkpoint keeps of gradients that leave FP8 continues") {
  GradientFallback before({3, 8}, 2);
  before.record(std::vector<double>{too_many, 0});
  GradientFallback after({3, 8}, 2);
  for (std::size_t i = 0; i < 2; ++i) after.set_state(i, {before.state(i)[0], before.state(i)[1]});
  CHECK(leaving_after(after, {too_many, too_many}) == std::vector<std::size_t>{3});
}

TEST_CASE("a step's shares are those noted in it") {
  GradientFallback gradients({3, 8}, 2);
  gradients.note(8, 0.25);
  CHECK(gradients.take_shares() == std::vector<double>{0, 0.25});
  CHECK(gradients.take_shares() == std::vector<double>{0, 0});
}

TEST_CASE("ranks count the same share of a matrix's saturated sums in any layout, and then sum it outside of FP8",
          "[ranks]") {
  for (const ShardCase& shards : shard_cases()) {
    if (shards.ranks == 1) continue;
    INFO(shards.in_words());
    const Recipe recipe = saturating_recipe(shards);
    const std::shared_ptr<const Layout> layout = layout_of(recipe, shards.ranks);
    const Graph& graph = layout->graph();
    const std::vector<std::size_t> matrices = fp8_matrices(graph);
    std::vector<double> half, none(matrices.size(), 0);
    std::vector<std::size_t> saturating;
    for (const std::size_t matrix : matrices) {
      const bool is_up = graph.parameters[matrix].local_name == "ffn.up.weight";
      half.push_back(is_up ? 0.5 : 0);
      if (is_up) saturating.push_back(matrix);
    }
    for (const Leaving& rank : on_ranks(recipe, shards.ranks, steps_of)) {
      CHECK(rank.shares == std::vector<std::vector<double>>{half, half, none});
      CHECK(rank.matrices == std::vector<std::vector<std::size_t>>{{}, saturating, {}});
      CHECK(rank.sums_are_exact);
    }
  }
}

}  // namespace llmtrain::test
