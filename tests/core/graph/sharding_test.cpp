// SPDX-License-Identifier: Apache-2.0
#include "core/graph/sharding.h"

#include <catch2/catch.hpp>

#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

TEST_CASE("a rank's part of each parameter") {
  const Graph graph = Graph::build(test::qwen3_600m());
  const ShardDegrees degrees{.tensor = 4, .expert = 1, .expert_tensor = 1};
  const auto part = [&](std::size_t block, const char* name) {
    return local_elements(graph.parameter(block, name), degrees);
  };
  CHECK(part(1, "attention.query.weight") == 2048 * 1024 / 4);
  CHECK(part(1, "attention.key.weight") == 1024 * 1024 / 4);
  CHECK(part(1, "attention.output.weight") == 2048 * 1024 / 4);
  CHECK(part(1, "ffn_norm.weight") == 1024);
  CHECK(part(1, "attention.query_norm.weight") == 128);
  CHECK(part(0, "token.weight") == 151936 / 4 * 1024);
}

TEST_CASE("a vocabulary is padded to the same number of rows on each rank") {
  const Graph graph = Graph::build(test::gpt2_model(1, 64, 4));
  CHECK(local_units(graph.parameter(0, "token.weight").split, 8) == 6283);  // 50257 / 8 = 6282.1
  CHECK(local_elements(graph.parameter(0, "token.weight"), {.tensor = 8}) == 6283 * 64);
  CHECK(local_elements(graph.parameter(0, "position.weight"), {.tensor = 8}) == 1024 * 64);
}

TEST_CASE("key heads are repeated if there are fewer than ranks") {
  const Graph graph = Graph::build(test::llama3_8b());
  for (const std::int64_t tensor : {8, 16})
    CHECK(local_units(graph.parameter(1, "attention.key.weight").split, tensor) == 1);
  CHECK(copy_counts(graph, 8).empty());
  CHECK(copy_counts(graph, 16) == std::vector<std::int64_t>{2});
  CHECK(local_elements(graph.parameter(1, "attention.key.weight"), {.tensor = 16}) == 128 * 4096);
  CHECK(local_elements(graph.parameter(1, "attention.query.weight"), {.tensor = 16}) == 256 * 4096);
}

TEST_CASE("experts are distributed over expert ranks and split over expert-tensor ranks") {
  ModelRecipe model = test::mixtral_8x7b();
  model.bias = true;
  const Graph graph = Graph::build(model);
  const ShardDegrees degrees{.tensor = 8, .expert = 4, .expert_tensor = 2};
  const auto part = [&](const char* name) { return local_elements(graph.parameter(1, name), degrees); };
  CHECK(part("ffn.experts.up.weight") == 2 * 14336LL * 4096 / 2);
  CHECK(part("ffn.experts.down.weight") == 2 * 14336LL * 4096 / 2);
  CHECK(part("ffn.experts.up.bias") == 2 * 14336 / 2);
  CHECK(part("ffn.experts.down.bias") == 2 * 4096);
  CHECK(part("ffn.router.weight") == 8 * 4096);
}

}  // namespace
}  // namespace llmtrain
