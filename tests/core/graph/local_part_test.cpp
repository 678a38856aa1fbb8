// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "core/graph/sharding.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

using Shape = std::vector<std::int64_t>;

LocalPart part_of(const Graph& graph, std::size_t block, const char* name, std::int64_t tensor, std::int64_t position) {
  const ShardPlace place{.degrees = {.tensor = tensor, .expert_tensor = tensor}, .tensor = position};
  return local_part(graph.parameter(block, name), place);
}

// Adds 1 for each element of the whole tensor that the part holds.
void count_elements(const Parameter& parameter, const LocalPart& part, std::vector<int>& counts) {
  const std::size_t axes = parameter.shape.size();
  for (std::int64_t element = 0; element < parameter.elements(); ++element) {
    std::int64_t rest = element;
    bool inside = true;
    for (std::size_t axis = axes; axis-- > 0;) {
      const std::int64_t index = rest % parameter.shape[axis];
      rest /= parameter.shape[axis];
      inside = inside && index >= part.offset[axis] && index < part.offset[axis] + part.real_shape[axis];
    }
    if (inside) ++counts[static_cast<std::size_t>(element)];
  }
}

void check_covers(const Parameter& parameter, const ShardDegrees& degrees) {
  INFO(parameter.name << " on " << degrees.tensor << " tensor ranks");
  std::vector<int> all(static_cast<std::size_t>(parameter.elements()), 0), first = all;
  std::map<Shape, std::vector<std::int64_t>> copies;  // by offset
  // The ranks that hold a parameter once, each a part of it.
  const std::int64_t ranks = parameter.has_expert_axis ? degrees.expert * degrees.expert_tensor : degrees.tensor;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const ShardPlace place{degrees, rank % degrees.tensor, rank / degrees.expert_tensor % degrees.expert,
                           rank % degrees.expert_tensor};
    const LocalPart part = local_part(parameter, place);
    CHECK(part.elements() == local_elements(parameter, degrees));
    CHECK(part.real_elements() <= part.elements());
    CHECK(part.copy < part.copies);
    count_elements(parameter, part, all);
    if (part.copy == 0) count_elements(parameter, part, first);
    if (part.real_elements() == part.elements()) copies[part.offset].push_back(part.copy);
  }
  const std::int64_t each = local_part(parameter, {degrees}).copies;
  CHECK(all == std::vector<int>(all.size(), static_cast<int>(each)));
  CHECK(first == std::vector<int>(all.size(), 1));
  for (const auto& [offset, numbers] : copies)
    for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(numbers[i] == static_cast<std::int64_t>(i));
}

}  // namespace

TEST_CASE("heads, features and the vocabulary are assigned to the ranks in order") {
  const Graph graph = Graph::build(test::gpt2_model(1, 64, 4));
  const LocalPart query = part_of(graph, 1, "attention.query.weight", 2, 1);
  CHECK(query.shape == Shape{32, 64});
  CHECK(query.offset == Shape{32, 0});
  CHECK(query.copies == 1);
  const LocalPart down = part_of(graph, 1, "ffn.down.weight", 4, 3);
  CHECK(down.shape == Shape{64, 64});
  CHECK(down.offset == Shape{0, 192});
  CHECK(part_of(graph, 1, "ffn.up.bias", 4, 1).offset == Shape{64});
  const LocalPart last = part_of(graph, 0, "token.weight", 8, 7);  // 8 · 6283 − 50257 = 7 rows too many
  CHECK(last.shape == Shape{6283, 64});
  CHECK(last.real_shape == Shape{6276, 64});
  CHECK(last.offset == Shape{7 * 6283, 0});
}

TEST_CASE("the first copy of what every tensor rank holds is on the first rank") {
  const Graph graph = Graph::build(test::gpt2_model(1, 64, 4));
  for (std::int64_t position = 0; position < 4; ++position) {
    const LocalPart norm = part_of(graph, 1, "ffn_norm.weight", 4, position);
    CHECK(norm.shape == Shape{64});
    CHECK(norm.copies == 4);
    CHECK(norm.copy == position);
  }
}

TEST_CASE("neighbours share a key head if there are fewer key heads than ranks") {
  const Graph graph = Graph::build(test::llama3_8b());
  const LocalPart part = part_of(graph, 1, "attention.key.weight", 32, 21);  // 8 heads, 4 ranks each
  CHECK(part.shape == Shape{128, 4096});
  CHECK(part.offset == Shape{5 * 128, 0});
  CHECK(part.copies == 4);
  CHECK(part.copy == 1);
}

TEST_CASE("a rank may hold no row of a small vocabulary") {
  ModelRecipe model = test::gpt2_model(1, 64, 4);
  model.vocab_size = 5;
  const Graph graph = Graph::build(model);
  const LocalPart part = part_of(graph, 0, "token.weight", 4, 3);
  CHECK(part.shape == Shape{2, 64});
  CHECK(part.real_elements() == 0);
  CHECK(part.offset == Shape{5, 0});
}

TEST_CASE("the ranks together hold every element, and the first copies hold it once", "[property]") {
  auto models = test::all_small_models();
  for (std::size_t i = 0; i < models.size(); i += 7) {
    models[i].ffn_hidden_size = 48;
    const Graph graph = Graph::build(models[i]);
    for (const std::int64_t tensor : {1, 2, 4})
      for (const Parameter& parameter : graph.parameters) check_covers(parameter, {.tensor = tensor});
  }
}

TEST_CASE("experts are covered likewise", "[property]") {
  ModelRecipe model = test::gpt2_model(1, 16, 4);
  model.vocab_size = 11;
  model.max_sequence_length = 8;
  model.moe = MixtureOfExpertsRecipe{.experts = 4, .top_k = 1, .ffn_hidden_size = 8};
  const Graph graph = Graph::build(model);
  for (const ShardDegrees degrees : {ShardDegrees{4, 2, 2}, ShardDegrees{2, 4, 1}, ShardDegrees{4, 1, 4},
                                     ShardDegrees{2, 2, 8}, ShardDegrees{1, 4, 2}})
    for (const Parameter& parameter : graph.parameters) check_covers(parameter, degrees);
}

TEST_CASE("tensor ranks sum the gradients of routers, of which each sees some of the tokens") {
  ModelRecipe model = test::gpt2_model(2, 64, 4);
  model.moe = MixtureOfExpertsRecipe{
      .experts = 8, .ffn_hidden_size = 96, .shared_experts = 1, .shared_gate = true, .router = Router::cosine};
  const Graph graph = Graph::build(model);
  for (const bool splits_sequence : {true, false}) {
    const auto sum = [&](const char* name, std::int64_t tensor) {
      return gradient_sum(graph.parameter(1, name), tensor, splits_sequence);
    };
    for (const char* name : {"ffn.router.weight", "ffn.router_projection.weight", "ffn.router.temperature"}) {
      CHECK(sum(name, 4) == GradientSum::tensor_group);
      CHECK(sum(name, 1) == GradientSum::none);
    }
    CHECK(sum("ffn.experts.up.weight", 4) == GradientSum::none);
    CHECK(sum("ffn.experts.down.bias", 4) == GradientSum::none);
    CHECK((sum("ffn.shared_gate.weight", 4) == GradientSum::tensor_group) == splits_sequence);
  }
}

TEST_CASE("gradients of shared parameters are summed over ranks that see only part of the work") {
  const Graph graph = Graph::build(test::qwen3_600m());  // 8 heads of keys and values
  const auto sum = [&](std::size_t block, const char* name, std::int64_t tensor, bool splits_sequence) {
    return gradient_sum(graph.parameter(block, name), tensor, splits_sequence);
  };
  CHECK(sum(1, "ffn_norm.weight", 1, true) == GradientSum::none);
  CHECK(sum(1, "ffn_norm.weight", 4, false) == GradientSum::none);
  CHECK(sum(1, "ffn_norm.weight", 4, true) == GradientSum::tensor_group);
  CHECK(sum(1, "attention.key_norm.weight", 4, false) == GradientSum::tensor_group);
  CHECK(sum(1, "attention.query.weight", 16, true) == GradientSum::none);
  CHECK(sum(1, "attention.value.weight", 8, true) == GradientSum::none);
  CHECK(sum(1, "attention.value.weight", 16, false) == GradientSum::copies);
  CHECK(sum(0, "token.weight", 4, true) == GradientSum::none);
}

}  // namespace llmtrain
