// SPDX-License-Identifier: Apache-2.0
// The scales of experts' FP8 states where ranks hold parts of the experts.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

Recipe expert_recipe(std::int64_t expert, std::int64_t tensor, std::int64_t expert_tensor) {
  Recipe recipe = small_recipe();
  recipe.model.hidden_size = 16;
  recipe.model.moe = MixtureOfExpertsRecipe{.experts = 4, .top_k = 2, .ffn_hidden_size = 8};
  recipe.parallel.expert = expert;
  recipe.parallel.tensor = tensor;
  recipe.parallel.expert_tensor = expert_tensor;
  recipe.precision.fp8_level = Fp8Level::o2;
  return recipe;
}

// Stores weights of one magnitude, which grows from rank to rank, and returns the scales of all tensors.
std::vector<float> scales_of(Communicator& communicator, const Layout& layout, const StateGroup& group) {
  const RankGroups groups(communicator, layout);
  ParameterStore store(layout.graph(), group.parameters, groups.shard_place());
  ShardedParameters parameters(layout.graph(), store, group, {}, groups);
  parameters.incoming().memory().fill_(std::pow(16.0, communicator.rank()));
  parameters.publish();
  std::vector<float> scales;
  for (std::size_t i = 0; i < store.ranges().size(); ++i)
    scales.push_back(parameters.scales()->state(i).scales.front());
  return scales;
}

}  // namespace

TEST_CASE("ranks that hold parts of the experts agree on the scales of their tensors", "[ranks]") {
  for (const auto& [expert, tensor, expert_tensor] :
       {std::array{2, 1, 1}, {4, 1, 1}, {1, 2, 2}, {2, 2, 2}, {2, 2, 1}, {2, 1, 2}, {1, 2, 4}}) {
    INFO(expert << " expert ranks, " << tensor << " tensor ranks, " << expert_tensor << " that split experts");
    const auto layout = layout_of(expert_recipe(expert, tensor, expert_tensor), 4);
    const auto& groups = layout->partition().groups.front();
    const auto experts = std::ranges::find(groups, StateGroup::Kind::experts, &StateGroup::kind);
    REQUIRE(experts != groups.end());
    std::vector<std::vector<float>> scales(4);
    LocalWorld(4).run([&](Communicator& communicator) {
      scales[static_cast<std::size_t>(communicator.rank())] = scales_of(communicator, *layout, *experts);
    });
    REQUIRE(!scales.front().empty());
    // The largest of the last rank's weights is within fp16's range, and not far below it.
    for (const float scale : scales.back()) {
      CHECK(scale * std::pow(16.0, 3) <= 65504);
      CHECK(scale * std::pow(16.0, 3) > 1000);
    }
    for (const std::vector<float>& of_rank : scales) CHECK(of_rank == scales.back());
  }
}

}  // namespace llmtrain::test
