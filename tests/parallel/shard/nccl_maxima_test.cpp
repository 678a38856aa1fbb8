// SPDX-License-Identifier: Apache-2.0
// The largest magnitudes of ranks with emulated GPUs. NCCL's maximum of floats prefers numbers to NaN, as fmax() does,
// and a scale found so would hide that a rank has numbers that are not finite.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "parallel/shard/rank_groups.h"
#include "tests/parallel/comm/nccl_layer.h"

namespace llmtrain::test {
namespace {

constexpr int ranks = 4;

// Tensor and context ranks, and experts of which each rank of two has a part; the context ranks are the data ranks.
Layout layout_with_all_groups() {
  Recipe recipe;
  recipe.model.layers = 1;
  recipe.model.hidden_size = 8;
  recipe.model.heads = recipe.model.kv_heads = 2;
  recipe.model.head_dim = 4;
  recipe.model.ffn_hidden_size = 8;
  recipe.model.vocab_size = 16;
  recipe.model.max_sequence_length = 8;
  recipe.model.moe = MixtureOfExpertsRecipe{};
  recipe.model.moe->experts = recipe.model.moe->top_k = 2;
  recipe.model.moe->ffn_hidden_size = 8;
  recipe.batch = {.global = 4, .micro = 1, .sequence_length = 8};
  recipe.parallel.tensor = recipe.parallel.context = 2;
  recipe.parallel.expert_tensor = 2;
  recipe.launch.ranks = ranks;
  return Layout(Partition::make(recipe, ranks));
}

struct Maximum {
  std::string name;
  GroupKind kind;
  std::function<void(const RankGroups&, const at::Tensor&)> take;  // in place
};

const std::vector<Maximum> maxima{
    {"data", GroupKind::data, [](const RankGroups& groups, const at::Tensor& x) { groups.data.largest(x).wait(); }},
    {"tensor", GroupKind::tensor, [](const RankGroups& groups, const at::Tensor& x) { groups.tensor.largest(x); }},
    {"context", GroupKind::context, [](const RankGroups& groups, const at::Tensor& x) { groups.context.largest(x); }},
    {"experts' parts", GroupKind::expert_parts,
     [](const RankGroups& groups, const at::Tensor& x) { groups.expert_parts.largest(x); }},
};

// One for each rank, which is NaN there and on the others greater, the higher their number is.
std::vector<float> magnitudes_of(int rank) {
  std::vector<float> values(ranks, static_cast<float>(rank + 1));
  values[static_cast<std::size_t>(rank)] = std::numeric_limits<float>::quiet_NaN();
  return values;
}

std::vector<float> taken(const Maximum& maximum, const RankGroups& groups, const c10::Device& device) {
  const at::Tensor x = at::tensor(magnitudes_of(groups.communicator().rank())).to(device);
  maximum.take(groups, x);
  const at::Tensor here = x.cpu();
  const auto* const values = here.const_data_ptr<float>();
  return {values, values + here.numel()};
}

}  // namespace

TEST_CASE("a magnitude that is NaN on any one GPU is so on all of its group") {
  const Layout layout = layout_with_all_groups();
  std::vector<std::array<std::vector<float>, ranks>> seen(maxima.size());
  on_gpus(ranks, [&](Communicator& communicator, const c10::Device& device) {
    const RankGroups groups(communicator, layout);
    for (std::size_t i = 0; i < maxima.size(); ++i)
      seen[i][static_cast<std::size_t>(communicator.rank())] = taken(maxima[i], groups, device);
  });
  for (std::size_t i = 0; i < maxima.size(); ++i) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int> members = group_members(layout.mesh(), maxima[i].kind, rank);
      REQUIRE(members.size() == 2);
      for (int bad = 0; bad < ranks; ++bad) {
        INFO(maxima[i].name << " on rank " << rank << ", NaN on rank " << bad);
        const float got = seen[i][static_cast<std::size_t>(rank)][static_cast<std::size_t>(bad)];
        if (std::ranges::count(members, bad) > 0) {
          CHECK(std::isnan(got));
        } else {
          CHECK(got == static_cast<float>(std::ranges::max(members) + 1));
        }
      }
    }
  }
}

}  // namespace llmtrain::test
