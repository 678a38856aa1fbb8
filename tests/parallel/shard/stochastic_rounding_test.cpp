// SPDX-License-Identifier: Apache-2.0
// Where updates round what they store at random, the random numbers are those of the elements of whole tensors.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "core/base/error.h"
#include "parallel/shard/states/tensor_roundings.h"
#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

Recipe rounding_recipe(Fp8Level level, std::int64_t zero_stage, std::int64_t seed = 4) {
  Recipe recipe = small_recipe();
  recipe.model.hidden_size = 48;
  recipe.model.ffn_hidden_size = 80;
  recipe.parallel.zero_stage = zero_stage;
  recipe.precision.fp8_level = level;
  recipe.precision.stochastic_rounding = true;
  recipe.seed = seed;
  return recipe;
}

// Trains three steps and joins what all ranks have of the weights then. The first rank has all gradients, of numbers
// that no cast to E4M3 changes.
at::Tensor trained(const Recipe& recipe, int ranks) {
  std::int64_t elements = 0;
  const auto parts = on_ranks(recipe, ranks, [](ShardRank& rank) {
    rank.parameters.initialize(3);
    for (std::int64_t step = 1; step <= 3; ++step) {
      const at::Tensor places = at::arange(rank.store.elements(), at::kFloat);
      const at::Tensor gradients = (places * static_cast<double>(step)).remainder(15).sub_(7).div_(8);
      reduce_gradients(rank, gradients * (rank.groups.data.position() == 0 ? 1 : 0));
      rank.parameters.update(1e-3, 0.5, step);
    }
    return std::pair{Part{rank.parameters.owned(), rank.parameters.values()}, rank.store.elements()};
  });
  std::vector<Part> owned;
  for (const auto& [part, all] : parts) {
    owned.push_back(part);
    elements = all;
  }
  return join(owned, elements);
}

// Each element's index by its coordinates.
std::vector<std::int64_t> indices_of(const std::vector<std::int64_t>& shape, const LocalPart& part) {
  at::Tensor all = at::arange(element_count(shape)).view(shape);
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    all = all.narrow(static_cast<std::int64_t>(axis), part.offset[axis], part.shape[axis]);
  const at::Tensor flat = all.contiguous().flatten();
  return {flat.const_data_ptr<std::int64_t>(), flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

LocalPart part_of(std::vector<std::int64_t> shape, std::vector<std::int64_t> offset) {
  return {shape, shape, std::move(offset)};
}

}  // namespace

TEST_CASE("all layouts round states at random alike", "[ranks]") {
  const Fp8Level level = GENERATE(Fp8Level::o1, Fp8Level::o2, Fp8Level::o3);
  const at::Tensor alone = trained(rounding_recipe(level, 0), 1);
  for (const auto& [ranks, zero_stage] : {std::pair{2, 0}, {3, 1}, {2, 2}, {4, 3}}) {
    INFO(ranks << " ranks, ZeRO-" << zero_stage);
    CHECK(at::equal(trained(rounding_recipe(level, zero_stage), ranks), alone));
  }
  CHECK_FALSE(at::equal(trained(rounding_recipe(level, 0, 5), 1), alone));
  Recipe nearest = rounding_recipe(level, 0);
  nearest.precision.stochastic_rounding = false;
  const at::Tensor other = trained(nearest, 1);
  CHECK_FALSE(at::equal(other, alone));
  // fp16 has eleven digits, of which the last may differ by one in each step.
  CHECK(((other - alone).abs() <= alone.abs().max() * 0x1p-8).all().item<bool>());
}

TEST_CASE("the places of a part's elements are those of the whole parameter") {
  struct Case {
    std::vector<std::int64_t> shape;
    LocalPart part;
  };
  for (const auto& [shape, part] : std::vector<Case>{{{12}, part_of({4}, {8})},
                                                     {{6, 5}, part_of({6, 5}, {0, 0})},
                                                     {{6, 5}, part_of({2, 5}, {4, 0})},
                                                     {{6, 8}, part_of({6, 2}, {0, 4})},
                                                     {{6, 8}, part_of({6, 1}, {0, 7})},
                                                     {{1, 8}, part_of({1, 4}, {0, 4})},
                                                     {{4, 6, 5}, part_of({2, 6, 5}, {2, 0, 0})},
                                                     {{4, 6, 5}, part_of({2, 3, 5}, {1, 3, 0})},
                                                     {{4, 6, 8}, part_of({4, 6, 2}, {0, 0, 6})},
                                                     {{4, 6, 8}, part_of({1, 6, 2}, {3, 0, 2})}}) {
    const kernels::StochasticRounding places = element_places(shape, part);
    const std::vector<std::int64_t> want = indices_of(shape, part);
    const auto count = static_cast<std::int64_t>(want.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const kernels::RunPart run = kernels::run_part(places, i, count - i);
      for (std::int64_t k = 0; k < run.left; ++k) CHECK(run.index + k == want[static_cast<std::size_t>(i + k)]);
    }
  }
  CHECK_THROWS_AS(element_places({4, 6, 8}, part_of({4, 3, 2}, {0, 0, 0})), Error);
}

}  // namespace llmtrain::test
