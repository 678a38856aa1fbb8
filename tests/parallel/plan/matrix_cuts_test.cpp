// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/matrix_cuts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace llmtrain {
namespace {

using Elements = std::vector<std::int64_t>;

Elements listed(const std::vector<FlatInterval>& intervals) {
  Elements elements;
  for (const FlatInterval& interval : intervals)
    for (std::int64_t element = interval.begin; element < interval.end; ++element) elements.push_back(element);
  return elements;
}

// The shard at whose home a matrix is, which has elements of it; checks that there is one.
std::int64_t home_of(const MatrixCuts& cuts, const FlatShards& shards, std::size_t matrix) {
  std::vector<std::int64_t> homes;
  for (std::int64_t shard = 0; shard < shards.ranks; ++shard) {
    for (const auto those : {MatrixCuts::Those::whole, MatrixCuts::Those::cut}) {
      const std::vector<std::size_t> list = cuts.at_home(shard, those);
      if (std::find(list.begin(), list.end(), matrix) == list.end()) continue;
      homes.push_back(shard);
      CHECK(cuts.is_cut(matrix) == (those == MatrixCuts::Those::cut));
    }
  }
  REQUIRE(homes.size() == 1);
  return homes.front();
}

void check(const std::vector<FlatInterval>& matrices, const FlatShards& shards) {
  const MatrixCuts cuts(matrices, shards);
  // Element by element: from its owner to the home of its matrix.
  std::map<std::pair<std::int64_t, std::int64_t>, Elements> sent;
  for (std::size_t matrix = 0; matrix < matrices.size(); ++matrix) {
    const std::int64_t home = home_of(cuts, shards, matrix);
    CHECK(cuts.home(matrix) == home);
    bool is_part_here = false;
    for (std::int64_t element = matrices[matrix].begin; element < matrices[matrix].end; ++element) {
      const std::int64_t owner = element / shards.part();
      if (owner != home) sent[{owner, home}].push_back(element);
      is_part_here = is_part_here || owner == home;
    }
    CHECK(is_part_here);
  }
  CHECK(cuts.has_cuts() == !sent.empty());
  const std::vector<std::int64_t> exchanged_elements = cuts.exchanged_elements();
  for (std::int64_t from = 0; from < shards.ranks; ++from) {
    std::size_t exchanged = 0;
    for (std::int64_t to = 0; to < shards.ranks; ++to) {
      CHECK(listed(cuts.sent(from, to)) == sent[{from, to}]);
      exchanged += sent[{from, to}].size() + sent[{to, from}].size();
    }
    CHECK(exchanged_elements[static_cast<std::size_t>(from)] == static_cast<std::int64_t>(exchanged));
  }
}

}  // namespace

TEST_CASE("shards send what they have of cut matrices to their homes, and no more", "[layout]") {
  const std::vector<FlatInterval> matrices{{0, 8}, {8, 25}, {25, 30}, {30, 36}};
  for (const std::int64_t ranks : {1, 2, 3, 4, 5, 9, 40}) check(matrices, {36, ranks});
  // One that ends where a matrix does, and one of padding alone.
  check({{0, 9}, {9, 18}}, {18, 2});
  check({{0, 6}}, {6, 4});
}

TEST_CASE("shards have about equally much work on the matrices that they share", "[layout]") {
  // Three matrices over two shards each: none of them is left to a shard that has one already.
  const MatrixCuts cuts({{0, 15}, {15, 25}, {25, 40}}, {40, 4});
  for (const std::int64_t shard : {0, 1, 2}) CHECK(cuts.at_home(shard, MatrixCuts::Those::cut).size() == 1);
  // The first shard has work already, on a matrix of its own.
  CHECK(MatrixCuts({{0, 9}, {9, 12}, {12, 20}}, {20, 2}).home(1) == 1);
}

TEST_CASE("every expert's matrix is a matrix of its own", "[layout]") {
  ModelRecipe model;
  model.layers = 1;
  model.hidden_size = 8;
  model.heads = model.kv_heads = 2;
  model.head_dim = 4;
  model.ffn_hidden_size = 16;
  model.vocab_size = 20;
  model.max_sequence_length = 8;
  model.moe = MixtureOfExpertsRecipe{.experts = 4, .ffn_hidden_size = 12};
  const Graph graph = Graph::build(model);
  StateGroup group;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.local_name != "ffn.experts.up.weight" && parameter.local_name != "attention.query.weight") continue;
    group.parameters.push_back(graph.index_of(parameter));
    group.sizes.push_back(parameter.has_expert_axis ? parameter.elements() / 2 : parameter.elements());
  }
  const std::vector<FlatInterval> expected{{0, 64}, {64, 160}, {160, 256}};
  CHECK(matrices_of(graph, group, {.expert = 2}) == expected);
}

}  // namespace llmtrain
