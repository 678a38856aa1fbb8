// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/graph/marks/name_patterns.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

// Names of the matrices that take no FP8, without "layers." and ".weight".
std::vector<std::string> kept(const ModelRecipe& model, const HighPrecisionRecipe& high_precision) {
  std::vector<std::string> names;
  for (const Parameter& parameter : Graph::build(model, high_precision).parameters)
    if (parameter.is_layer_matrix && !parameter.takes_fp8())
      names.push_back(parameter.name.substr(7, parameter.name.size() - 14));
  return names;
}

ModelRecipe deep_llama() {
  ModelRecipe model = test::llama3_8b();
  model.layers = 12;
  return model;
}

PassSetting fp8_pass(KeptTensors kept) {
  PassSetting setting;
  setting.program.kept_tensors = kept;
  setting.tokens.sequence_length = 64;
  setting.numbers.compute = DataType::bf16;
  setting.numbers.fp8_level = Fp8Level::o1;
  return setting;
}

}  // namespace

TEST_CASE("a star in a pattern stands for any text") {
  for (const char* pattern : {"layers.1.ffn.up", "layers.*", "*", "*.up", "layers.*.up", "l*1*up", "layers.1.ffn.up*",
                              "*layers.1.ffn.up", "**ffn**", "layers.*.*.up"})
    CHECK(matches(pattern, "layers.1.ffn.up"));
  for (const char* pattern : {"layers", "layers.1.ffn.u", "layers.1.ffn.up.", "", "*.down", "layers.?.ffn.up",
                              "layers.1.*.1", "LAYERS*", "*x*"})
    CHECK_FALSE(matches(pattern, "layers.1.ffn.up"));
  CHECK((matches("", "") && matches("*", "")));
  // The first star has to reach further than the first place that fits.
  CHECK(matches("*ab", "aab"));
  CHECK(matches("a*bc*d", "abxbcxbcxd"));
}

TEST_CASE("first and last layers are counted") {
  const ModelRecipe model = test::gpt2_model(12, 64, 4);
  const std::vector<std::string> matrices{"attention.query",  "attention.key", "attention.value",
                                          "attention.output", "ffn.up",        "ffn.down"};
  CHECK(kept(model, {}).empty());
  std::vector<std::string> expected;
  for (const char* layer : {"0.", "1.", "11."})
    for (const std::string& matrix : matrices) expected.push_back(layer + matrix);
  CHECK(kept(model, {2, 1, {}}) == expected);
}

TEST_CASE("patterns name matrices, and what is multiplied as one stays together") {
  using Names = std::vector<std::string>;
  const ModelRecipe model = deep_llama();
  CHECK(kept(model, {0, 0, {"layers.3.ffn.down.weight"}}) == Names{"3.ffn.down"});
  CHECK(kept(model, {0, 0, {"layers.3.attention.key.weight"}}) ==
        Names{"3.attention.query", "3.attention.key", "3.attention.value"});
  CHECK(kept(model, {0, 0, {"layers.1.ffn.up.*", "layers.11*gate*"}}) ==
        Names{"1.ffn.gate", "1.ffn.up", "11.ffn.gate", "11.ffn.up"});
  CHECK(kept(model, {1, 0, {"*.attention.output.weight"}}).size() == 7 + 11);
  ModelRecipe experts = test::mixtral_8x7b();
  experts.layers = 2;
  CHECK(kept(experts, {0, 0, {"layers.1.ffn.experts.gate.weight"}}) == Names{"1.ffn.experts.gate", "1.ffn.experts.up"});
}

TEST_CASE("a pattern that matches no matrix of a layer is refused") {
  for (const char* pattern :
       {"layers.12.*", "head.weight", "layers.*.ffn_norm.weight", "ffn", "layers.0.ffn.up.bias"}) {
    try {
      Graph::build(deep_llama(), {0, 0, {"*up*", pattern}});
      FAIL(pattern);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::bad_recipe);
      CHECK_THAT(error.what(), Catch::StartsWith("/precision/high_precision/parameters/1: \"" + std::string(pattern)));
    }
  }
}

TEST_CASE("a layer in high precision costs and keeps what it does without FP8") {
  const ModelRecipe model = deep_llama();
  const Graph graph = Graph::build(model, {1, 0, {"layers.2.ffn.down.weight"}});
  // Blocks start with the embedding.
  CHECK(graph.blocks[2].alike == 2);
  CHECK(graph.blocks[3].alike == 3);
  CHECK(graph.blocks[4].alike == 2);
  for (const KeptTensors kept : {KeptTensors::core_model, KeptTensors::megatron}) {
    const PassSetting setting = fp8_pass(kept);
    PassSetting off = setting;
    off.numbers.fp8_level = Fp8Level::off;
    CHECK(test::saved_bytes(graph, 1, setting) == test::saved_bytes(graph, 1, off));
    CHECK(test::pass_peak(graph, 1, setting).backward == test::pass_peak(graph, 1, off).backward);
    // The down projection's input: 64 tokens of 14,336 features, of two bytes instead of one (other programs: two).
    const double fewer = kept == KeptTensors::core_model ? 64 * 14336 : 0;
    CHECK(test::saved_bytes(graph, 3, setting) - test::saved_bytes(graph, 2, setting) == fewer);
    for (const Operator& item : test::operators_of(graph, 3, setting)) {
      if (item.kind == OperatorKind::product) CHECK(item.uses_fp8 == (item.name.find(".down") == std::string::npos));
    }
  }
}

}  // namespace llmtrain
