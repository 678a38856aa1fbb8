// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/matrix_cuts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace llmtrain {
namespace {

using Elements = std::vector<std::int64_t>;

bool owns(const FlatShards& shards, std::int64_t shard, std::int64_t element) {
  return element / shards.part() == shard;
}

// Element by element: those of `from` in matrices of which `to` owns an element.
Elements needed(const std::vector<FlatInterval>& matrices, const FlatShards& shards, std::int64_t from,
                std::int64_t to) {
  Elements elements;
  for (const FlatInterval& matrix : matrices) {
    bool is_shared = false;
    for (std::int64_t element = matrix.begin; element < matrix.end; ++element)
      is_shared = is_shared || owns(shards, to, element);
    for (std::int64_t element = matrix.begin; is_shared && element < matrix.end; ++element)
      if (owns(shards, from, element)) elements.push_back(element);
  }
  return elements;
}

Elements listed(const std::vector<FlatInterval>& intervals) {
  Elements elements;
  for (const FlatInterval& interval : intervals)
    for (std::int64_t element = interval.begin; element < interval.end; ++element) elements.push_back(element);
  return elements;
}

void check(const std::vector<FlatInterval>& matrices, const FlatShards& shards) {
  const MatrixCuts cuts(matrices, shards);
  std::int64_t all = 0;
  for (std::int64_t from = 0; from < shards.ranks; ++from) {
    std::int64_t to_others = 0, from_others = 0;
    for (std::int64_t to = 0; to < shards.ranks; ++to) {
      if (to == from) continue;
      const Elements expected = needed(matrices, shards, from, to);
      CHECK(listed(cuts.sent(from, to)) == expected);
      to_others += static_cast<std::int64_t>(expected.size());
      from_others += static_cast<std::int64_t>(needed(matrices, shards, to, from).size());
    }
    CHECK(cuts.sent_elements(from) == to_others);
    CHECK(cuts.received_elements(from) == from_others);
    all += to_others;
    for (std::size_t matrix = 0; matrix < matrices.size(); ++matrix) {
      bool is_touched = false;
      for (std::int64_t element = matrices[matrix].begin; element < matrices[matrix].end; ++element)
        is_touched = is_touched || owns(shards, from, element);
      const MatrixCuts::Range range = cuts.touched_by(from);
      CHECK((range.first <= matrix && matrix < range.last) == is_touched);
    }
  }
  CHECK(cuts.has_cuts() == (all > 0));
}

}  // namespace

TEST_CASE("shards send each other what they lack of the matrices that they share, and no more", "[layout]") {
  const std::vector<FlatInterval> matrices{{0, 8}, {8, 25}, {25, 30}, {30, 36}};
  for (const std::int64_t ranks : {1, 2, 3, 4, 5, 9, 40}) check(matrices, {36, ranks});
  // One that ends where a matrix does, and one of padding alone.
  check({{0, 9}, {9, 18}}, {18, 2});
  check({{0, 6}}, {6, 4});
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
    if (parameter.role != ParameterRole::expert_up_weight && parameter.role != ParameterRole::query_weight) continue;
    group.parameters.push_back(graph.index_of(parameter));
    group.sizes.push_back(parameter.has_expert_axis ? parameter.elements() / 2 : parameter.elements());
  }
  const std::vector<FlatInterval> expected{{0, 64}, {64, 160}, {160, 256}};
  CHECK(matrices_of(graph, group, {.expert = 2}) == expected);
}

}  // namespace llmtrain
