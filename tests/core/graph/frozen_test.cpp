// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/graph/operators/operators.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

using Patterns = std::vector<std::string>;

ModelRecipe small_llama() {
  ModelRecipe model = test::llama3_8b();
  model.layers = 3;
  return model;
}

std::vector<std::string> trained(const ModelRecipe& model, const Patterns& patterns) {
  std::vector<std::string> names;
  for (const Parameter& parameter : Graph::build(model, {}, patterns).parameters)
    if (!parameter.is_frozen) names.push_back(parameter.name);
  return names;
}

// The words in which patterns are refused.
std::string refusal(const Patterns& patterns) {
  try {
    Graph::build(small_llama(), {}, patterns);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_recipe);
    return error.what();
  }
  return "";
}

// By token, in sequences of 64 of them: a power of two, so that the quotient is exact.
double flops_per_token(const Graph& graph) { return training_flops_per_sample(graph, 64) / 64; }

TEST_CASE("Patterns freeze the parameters that they name") {
  const Patterns all_but_norms{"embedding.*", "*.attention.*", "*.ffn.*", "head.weight"};
  CHECK(trained(small_llama(), all_but_norms) ==
        std::vector<std::string>{"layers.0.attention_norm.weight", "layers.0.ffn_norm.weight",
                                 "layers.1.attention_norm.weight", "layers.1.ffn_norm.weight",
                                 "layers.2.attention_norm.weight", "layers.2.ffn_norm.weight", "final_norm.weight"});
  CHECK(Graph::build(small_llama(), {}, all_but_norms).trained_parameter_count() == 7 * 4096);
  CHECK(trained(small_llama(), {"layers.*", "embedding.*", "final_norm.*"}) == std::vector<std::string>{"head.weight"});
  const Graph graph = Graph::build(small_llama(), {}, {"layers.1.ffn.down.weight"});
  // Blocks that train other parameters cost otherwise: they are no longer alike.
  CHECK(graph.blocks[2].alike == 2);
  CHECK(graph.blocks[3].alike == 1);
}

TEST_CASE("Patterns that freeze nothing, a part of a product or everything are refused") {
  CHECK_THAT(refusal({"head.weight", "layers.3.*"}),
             Catch::StartsWith("/training/freeze/1: \"layers.3.*\" matches no"));
  CHECK_THAT(refusal({"ffn"}), Catch::StartsWith("/training/freeze/0: \"ffn\""));
  CHECK_THAT(refusal({"layers.1.attention.query.weight"}),
             Catch::StartsWith("/training/freeze: layers.1.attention.query.weight is frozen and "
                               "layers.1.attention.value.weight is trained; both must be"));
  CHECK_THAT(refusal({"*.ffn.up.weight"}), Catch::Contains("layers.0.ffn.gate.weight is trained"));
  CHECK_THAT(refusal({"*"}), Catch::StartsWith("/training/freeze: freezes all"));
}

TEST_CASE("A frozen matrix saves the product that makes its gradient") {
  const double all = flops_per_token(Graph::build(small_llama()));
  const auto saved = [&](const Patterns& patterns) {
    return all - flops_per_token(Graph::build(small_llama(), {}, patterns));
  };
  // A multiply-add per element of the matrix.
  const double down = 2.0 * 4096 * 14336;
  CHECK(saved({"layers.1.ffn.down.weight"}) == down);
  CHECK(saved({"*.ffn.*.weight"}) == 3 * 3 * down);
  CHECK(saved({"head.weight"}) == 2.0 * 4096 * 128256);
  CHECK(saved({"*norm*", "embedding.*"}) == 0);
  ModelRecipe tied = test::gpt2_model(2, 64, 4);
  CHECK(flops_per_token(Graph::build(tied)) - flops_per_token(Graph::build(tied, {}, {"embedding.token.*"})) ==
        2.0 * 64 * static_cast<double>(tied.vocab_size));
  ModelRecipe experts = test::mixtral_8x7b();
  experts.layers = 1;
  CHECK(flops_per_token(Graph::build(experts)) - flops_per_token(Graph::build(experts, {}, {"*.router.weight"})) ==
        2.0 * 8 * 4096);
}

TEST_CASE("Blocks before the first that is trained have no backward") {
  const auto first = [](const Patterns& patterns) {
    return Graph::build(small_llama(), {}, patterns).first_with_backward();
  };
  CHECK(first({}) == 0);
  CHECK(first({"layers.0.*"}) == 0);
  CHECK(first({"embedding.*"}) == 1);
  CHECK(first({"embedding.*", "layers.0.*", "layers.2.*"}) == 2);
  CHECK(first({"embedding.*", "layers.*"}) == 4);
  // The head trains the embedding's table, which the first block reads.
  ModelRecipe tied = test::gpt2_model(2, 64, 4);
  CHECK(Graph::build(tied, {}, {"layers.*"}).first_with_backward() == 0);
  CHECK(Graph::build(tied, {}, {"embedding.*", "layers.*"}).first_with_backward() == 3);
  ModelRecipe adapted = small_llama();
  adapted.lora = LoraRecipe{.targets = {"layers.2.attention.*"}};
  CHECK(Graph::build(adapted).first_with_backward() == 3);
  const Graph graph = Graph::build(small_llama(), {}, {"embedding.*", "layers.0.*", "layers.2.*"});
  CHECK(graph.blocks[3].alike == 3);
}

TEST_CASE("A block without a backward saves both products of each matrix, and keeps nothing") {
  const Graph all = Graph::build(small_llama());
  const Graph frozen = Graph::build(small_llama(), {}, {"embedding.*", "layers.0.*"});
  // Queries and output, keys and values, the network, and both products of attention with 64 keys; a multiply-add per
  // element, twice in the backward.
  const double matrices = 2.0 * 4096 * 4096 + 2.0 * 1024 * 4096 + 3.0 * 4096 * 14336, scores = 2.0 * 64 * 4096;
  CHECK(flops_per_token(all) - flops_per_token(frozen) == 2 * 2 * (matrices + scores));
  PassSetting setting;
  setting.tokens.sequence_length = 64;
  const auto operators = [&](const Graph& graph) { return block_operators(graph, 1, setting); };
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    CHECK(saved_bytes(operators(all), recompute) > 0);
    CHECK(saved_bytes(operators(frozen), recompute) == 0);
    CHECK(pass_peak(operators(frozen), recompute, 1).backward == 0);
  }
  // The forward makes the same, and lets go of it at its end.
  CHECK(pass_peak(operators(frozen), Recompute::none, 1).forward ==
        pass_peak(operators(all), Recompute::none, 1).forward);
}

}  // namespace
}  // namespace llmtrain
