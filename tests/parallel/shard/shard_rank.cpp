// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/shard/shard_rank.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

namespace llmtrain::test {

Recipe small_recipe() {
  Recipe recipe;
  recipe.model.layers = 1;
  recipe.model.hidden_size = 5;
  recipe.model.heads = recipe.model.kv_heads = 2;
  recipe.model.head_dim = 4;
  recipe.model.ffn_hidden_size = 8;
  recipe.model.vocab_size = 23;
  recipe.model.max_sequence_length = 8;
  recipe.batch = {.global = 24, .micro = 1, .sequence_length = 8};
  return recipe;
}

std::shared_ptr<const Layout> layout_of(Recipe recipe, int ranks) {
  recipe.launch.ranks = ranks;
  return std::make_shared<const Layout>(Partition::make(recipe, ranks));
}

const StateGroup& group_of(const Layout& layout) {
  const std::vector<StateGroup>& groups = layout.partition().groups.front();
  const auto of_matrices =
      std::ranges::find_if(groups, [](const StateGroup& group) { return group.is_fp8 || group.is_muon; });
  return of_matrices == groups.end() ? groups.front() : *of_matrices;
}

std::string ShardCase::in_words() const {
  return "ZeRO-" + std::to_string(zero_stage) + " over " + std::to_string(shard_ranks) + " of " +
         std::to_string(ranks) + " ranks" + (compute == DataType::bf16 ? ", bf16" : "");
}

Recipe ShardCase::recipe() const {
  Recipe recipe = small_recipe();
  recipe.parallel.zero_stage = zero_stage;
  recipe.parallel.zero_shard_ranks = shard_ranks;
  recipe.precision.compute = compute;
  return recipe;
}

std::vector<ShardCase> shard_cases() {
  std::vector<ShardCase> cases{{1, 0, 1}};
  for (std::int64_t stage = 0; stage <= 3; ++stage) {
    cases.push_back({2, stage, 2});
    cases.push_back({3, stage, 3});
    cases.push_back({4, stage, 4});
    cases.push_back({4, stage, 2});
  }
  return cases;
}

at::Tensor flat_of(std::int64_t elements, const Values& values) {
  at::Tensor flat = at::empty({elements}, at::kDouble);
  for (std::int64_t i = 0; i < elements; ++i) flat.data_ptr<double>()[i] = values(i);
  return flat.to(at::kFloat);
}

void write_gradients(ShardRank& rank, const at::Tensor& flat, const std::string& skipped) {
  for (const FlatRange& range : rank.store.ranges()) {
    if (rank.graph.parameters[range.parameter].name == skipped) continue;
    const auto target = rank.store.gradient(range.parameter);
    const at::Tensor written = flat.slice(0, range.begin, range.end).view(target.tensor.sizes());
    if (target.accumulation == kernels::Accumulation::overwrite) {
      target.tensor.copy_(written);
    } else {
      target.tensor.add_(written);
    }
  }
}

void reduce_gradients(ShardRank& rank, const at::Tensor& flat, const std::string& skipped) {
  rank.parameters.start_step();
  write_gradients(rank, flat, skipped);
  if (rank.groups.data.ranks() > 1) rank.parameters.reduce();
  rank.parameters.collect();
}

void read_saturated(ShardRank& rank) {
  const ScalarTable nothing;
  StepScalars scalars(nothing);
  rank.parameters.bring_saturated(scalars);
  scalars.read();
}

at::Tensor gathered_weights(ShardRank& rank) {
  rank.parameters.gather();
  rank.parameters.finish_gather();
  std::vector<at::Tensor> weights;
  for (const FlatRange& range : rank.store.ranges())
    weights.push_back(rank.store.weight(range.parameter).to(at::kFloat).flatten());
  at::Tensor all = at::cat(weights);
  rank.parameters.free();
  return all;
}

at::Tensor join(const std::vector<Part>& parts, std::int64_t elements) {
  const at::Tensor whole = at::full({elements}, std::numeric_limits<double>::quiet_NaN(), at::kFloat);
  for (const Part& part : parts) {
    const at::Tensor place = whole.slice(0, part.place.begin, part.place.end);
    const at::Tensor values = part.values.slice(0, 0, part.place.count());
    REQUIRE(place.isnan().logical_or(place.eq(values)).all().item<bool>());
    place.copy_(values);
  }
  REQUIRE_FALSE(whole.isnan().any().item<bool>());
  return whole;
}

}  // namespace llmtrain::test
