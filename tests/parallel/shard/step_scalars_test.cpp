// SPDX-License-Identifier: Apache-2.0
// What ranks make of a step's numbers, against what each of them has added.
#include "parallel/shard/step_scalars.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "parallel/layout/declared_scalars.h"
#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double none = std::numeric_limits<double>::quiet_NaN();

ScalarTable small_table() {
  ScalarTable table;
  table.declare("loss", Combination::sum);
  table.declare("counts", Combination::sum, 3);
  table.declare("seconds", Combination::gather, 2);
  table.declare("magnitudes", Combination::maximum, 3);
  table.declare("silent", Combination::maximum, 2);
  return table;
}

struct Found {
  double loss = 0;
  std::vector<double> counts, seconds, magnitudes, silent, brought;
  std::vector<CommunicationCount> sent;
};

// Sums of these depend on the order, in float64 too.
double share_of_loss(int rank) { return std::vector<double>{1e16, 1, -1e16, 3}.at(static_cast<std::size_t>(rank)); }

Found exchanged(ShardRank& shard) {
  const ScalarTable table = small_table();
  Communicator& communicator = shard.groups.communicator();
  const int rank = communicator.rank();
  Found found;
  StepScalars scalars(table);
  // Names in another order than they are declared, and tensors of several types.
  scalars.add("magnitudes", at::tensor({1.0F + static_cast<float>(rank), 5.0F, 0.0F}));
  scalars.bring(at::tensor({rank, 7}, at::kInt),
                [&](std::span<const double> numbers) { found.brought.assign(numbers.begin(), numbers.end()); });
  scalars.add("counts", at::full({3, 1}, rank, at::kHalf));
  scalars.add("loss", share_of_loss(rank));
  scalars.read();
  scalars.add("counts", std::vector<double>{1, 2, 3});
  scalars.add("magnitudes", std::vector<double>{0, 4, rank == 0 ? none : 2.0});
  scalars.add("seconds", std::vector<double>{rank + 0.5, -1});
  communicator.log().reset_counts();
  scalars.exchange(shard.groups);
  found.sent = communicator.log().counts();
  found.loss = scalars.number("loss");
  found.counts = scalars.numbers("counts");
  found.seconds = scalars.numbers("seconds");
  found.magnitudes = scalars.numbers("magnitudes");
  found.silent = scalars.numbers("silent");
  return found;
}

}  // namespace

TEST_CASE("all ranks make the same of their scalars, in one message, with sums in the order of the ranks", "[ranks]") {
  for (const int ranks : {1, 2, 4}) {
    INFO(ranks << " ranks");
    double loss = 0, sum = 0;
    std::vector<double> seconds;
    for (int rank = 0; rank < ranks; ++rank) {
      loss += share_of_loss(rank);
      sum += rank;
      seconds.insert(seconds.end(), {rank + 0.5, -1});
    }
    const auto found = on_ranks(small_recipe(), ranks, exchanged);
    for (std::size_t rank = 0; rank < found.size(); ++rank) {
      const Found& here = found[rank];
      CHECK(here.loss == loss);
      CHECK(here.counts == std::vector<double>{sum + ranks, sum + 2 * ranks, sum + 3 * ranks});
      CHECK(here.seconds == seconds);
      // What is not a number is larger than all that are.
      CHECK(here.magnitudes == std::vector<double>{static_cast<double>(ranks), 5, infinity});
      CHECK(here.silent == std::vector<double>{0, 0});
      CHECK(here.brought == std::vector<double>{static_cast<double>(rank), 7});
      if (ranks == 1) continue;
      REQUIRE(here.sent.size() == 1);
      CHECK(here.sent.front().calls == 1);
      CHECK(here.sent.front().bytes == 11 * 8.0 * (ranks - 1));
    }
  }
}

TEST_CASE("a rank's own sums are in the order in which they were added, those of tensors last") {
  const auto found = on_ranks(small_recipe(), 1, [](ShardRank& rank) {
    const ScalarTable table = small_table();
    StepScalars scalars(table);
    scalars.add("loss", at::scalar_tensor(1e16, at::kDouble));
    scalars.add("loss", 1);
    scalars.add("loss", at::scalar_tensor(1, at::kDouble));
    scalars.add("loss", at::scalar_tensor(-1e16, at::kDouble));
    scalars.read();
    scalars.exchange(rank.groups);
    return scalars.number("loss");
  });
  // Beside 1e16 both ones are lost; the host's remained if tensors came first, the other if they were summed apart.
  CHECK(found.front() == 0);
}

TEST_CASE("scalars that are not declared, or not as many, are errors of the program") {
  ScalarTable table = small_table();
  StepScalars scalars(table);
  CHECK_THROWS_AS(scalars.add("lost", 1), Error);
  CHECK_THROWS_AS(scalars.add("counts", 1), Error);
  CHECK_THROWS_AS(scalars.numbers("lost"), Error);
  scalars.add("counts", at::zeros({4}));
  CHECK_THROWS_AS(scalars.read(), Error);
  CHECK_THROWS_AS(table.declare("loss", Combination::maximum), Error);
}

TEST_CASE("a step declares what its recipe has, and no more") {
  const auto numbers_of = [](const Recipe& recipe) {
    return declared_scalars(layout_of(recipe, 2)->partition()).numbers();
  };
  Recipe recipe = small_recipe();
  CHECK(numbers_of(recipe) == 4);
  recipe.model.hidden_size = 48;
  recipe.model.ffn_hidden_size = 80;
  recipe.precision.fp8_level = Fp8Level::o1;
  CHECK(numbers_of(recipe) == 6);
  recipe.precision.fp8_scaling.method = Fp8ScalingMethod::delayed;
  recipe.precision.high_precision.fallback_steps = 2;
  const ScalarTable table = declared_scalars(layout_of(recipe, 2)->partition());
  const Graph graph = Graph::build(recipe.model);
  CHECK(table.at(scalar_names::fp8_magnitudes).count == 3 * fp8_products(graph).size());
  CHECK(table.at(scalar_names::saturated_shares).count == fp8_matrices(graph).size());
  CHECK_FALSE(table.has(scalar_names::routing));
}

}  // namespace llmtrain::test
