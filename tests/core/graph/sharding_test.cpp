// SPDX-License-Identifier: Apache-2.0
#include "core/graph/sharding.h"

#include <catch2/catch.hpp>

#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

using Role = ParameterRole;

TEST_CASE("a rank's part of each parameter") {
  const Graph graph = Graph::build(test::qwen3_600m());
  const ShardDegrees degrees{.tensor = 4, .expert = 1, .expert_tensor = 1};
  const auto part = [&](std::size_t block, Role role) {
    return local_elements(graph.model, graph.parameter(block, role), degrees);
  };
  CHECK(part(1, Role::query_weight) == 2048 * 1024 / 4);
  CHECK(part(1, Role::key_weight) == 1024 * 1024 / 4);
  CHECK(part(1, Role::attention_output_weight) == 2048 * 1024 / 4);
  CHECK(part(1, Role::ffn_norm_weight) == 1024);
  CHECK(part(1, Role::query_norm_weight) == 128);
  CHECK(part(0, Role::token_embedding) == 151936 / 4 * 1024);
}

TEST_CASE("a vocabulary is padded to the same number of rows on each rank") {
  const Graph graph = Graph::build(test::gpt2_model(1, 64, 4));
  CHECK(local_vocabulary(graph.model, 8) == 6283);  // 50257 / 8 = 6282.1
  CHECK(local_elements(graph.model, graph.parameter(0, Role::token_embedding), {.tensor = 8}) == 6283 * 64);
  CHECK(local_elements(graph.model, graph.parameter(0, Role::position_embedding), {.tensor = 8}) == 1024 * 64);
}

TEST_CASE("key heads are repeated if there are fewer than ranks") {
  const Graph graph = Graph::build(test::llama3_8b());
  CHECK(local_kv_heads(graph.model, 8) == 1);
  CHECK(local_kv_heads(graph.model, 16) == 1);
  CHECK(local_elements(graph.model, graph.parameter(1, Role::key_weight), {.tensor = 16}) == 128 * 4096);
  CHECK(local_elements(graph.model, graph.parameter(1, Role::query_weight), {.tensor = 16}) == 256 * 4096);
}

TEST_CASE("experts are distributed over expert ranks and split over expert-tensor ranks") {
  ModelRecipe model = test::mixtral_8x7b();
  model.bias = true;
  const Graph graph = Graph::build(model);
  const ShardDegrees degrees{.tensor = 8, .expert = 4, .expert_tensor = 2};
  const auto part = [&](Role role) { return local_elements(model, graph.parameter(1, role), degrees); };
  CHECK(part(Role::expert_up_weight) == 2 * 14336LL * 4096 / 2);
  CHECK(part(Role::expert_down_weight) == 2 * 14336LL * 4096 / 2);
  CHECK(part(Role::expert_up_bias) == 2 * 14336 / 2);
  CHECK(part(Role::expert_down_bias) == 2 * 4096);
  CHECK(part(Role::router_weight) == 8 * 4096);
}

}  // namespace
}  // namespace llmtrain
