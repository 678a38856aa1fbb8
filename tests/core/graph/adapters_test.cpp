// SPDX-License-Identifier: Apache-2.0
#include "core/graph/adapters.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/graph/sharding.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

ModelRecipe with_adapters(ModelRecipe model, const std::vector<std::string>& targets) {
  model.layers = 2;
  LoraRecipe& lora = model.lora.emplace();
  lora.rank = 4;
  lora.alpha = 8;
  lora.targets = targets;
  return model;
}

const Parameter& named(const Graph& graph, const std::string& name) {
  for (const Parameter& parameter : graph.parameters)
    if (parameter.name == name) return parameter;
  FAIL(name);
  return graph.parameters.front();
}

TEST_CASE("Adapters of the matrices that patterns name are trained alone") {
  const Graph graph = Graph::build(with_adapters(test::llama3_8b(), {"layers.1.attention.key.weight", "*.ffn.down.*"}));
  std::vector<std::string> trained;
  for (const Parameter& parameter : graph.parameters)
    if (!parameter.is_frozen) trained.push_back(parameter.name);
  CHECK(trained == std::vector<std::string>{"layers.0.ffn.down.lora_a", "layers.0.ffn.down.lora_b",
                                            "layers.1.attention.key.lora_a", "layers.1.attention.key.lora_b",
                                            "layers.1.ffn.down.lora_a", "layers.1.ffn.down.lora_b"});
  CHECK(named(graph, "layers.0.ffn.down.lora_a").shape == std::vector<std::int64_t>{4, 14336});
  CHECK(named(graph, "layers.0.ffn.down.lora_b").shape == std::vector<std::int64_t>{4096, 4});
  CHECK(graph.trained_parameter_count() == 4 * (2 * (14336 + 4096) + 4096 + 1024));
  CHECK(graph.blocks[2].alike == 2);
  // Without adapters it is the model that they adapt.
  CHECK(Graph::build(without_adapters(graph.model)).parameter_count() + graph.trained_parameter_count() ==
        graph.parameter_count());
}

TEST_CASE("An adapter costs its two products, forward and twice backward, and spares its matrix's gradient") {
  const ModelRecipe model = with_adapters(test::llama3_8b(), {"*.ffn.down.weight"});
  const std::vector<std::string> all{"*"};
  ModelRecipe plain = without_adapters(model);
  const double forward_and_input = training_flops_per_sample(Graph::build(plain), 64);
  // A multiply-add per element of each frozen matrix less, and three per element of the adapters more.
  const double matrices = 2.0 * (2 * 4096.0 * (4096 + 2 * 1024 + 4096 + 3 * 14336) + 128256.0 * 4096);
  const double adapters = 3 * 2.0 * 2 * 4 * (14336 + 4096);
  CHECK(training_flops_per_sample(Graph::build(model), 64) == forward_and_input + 64 * (adapters - matrices));
}

// QLoRA, section 3: 4 bits, and 0.5 of scales of 32 bits for 64 elements each, which double quantization makes 0.127.
TEST_CASE("A frozen matrix in NF4 takes its 4 bits and its scales") {
  LoraRecipe lora{.base = LoraBase::nf4};
  CHECK(8 * lora.nf4_bytes() == Approx(4.127).epsilon(1e-4));
  lora.double_quantization = false;
  CHECK(8 * lora.nf4_bytes() == 4.5);
}

TEST_CASE("The layers' frozen matrices are packed, and each product makes its own again in both passes") {
  ModelRecipe model = with_adapters(test::llama3_8b(), {"*.ffn.down.weight"});
  model.lora->base = LoraBase::nf4;
  model.lora->modules_to_save = {"*.attention.output"};
  const Graph graph = Graph::build(model);
  for (const Parameter& parameter : graph.parameters) {
    CAPTURE(parameter.name);
    CHECK(parameter.is_packed == (parameter.is_layer_matrix && !parameter.name.ends_with("attention.output.weight")));
  }
  PassSetting setting;
  setting.tokens.sequence_length = 64;
  setting.numbers.compute = DataType::bf16;
  const auto unpacked = [&](std::int64_t tensor) {
    setting.shards.tensor = tensor;
    double bytes = 0, scratch = 0;
    for (const Operator& item : test::operators_of(graph, 1, setting)) {
      if (!item.name.ends_with("_unpacked")) continue;
      CHECK(item.forward.elements == item.backward.elements);
      bytes += 2 * item.forward.elements;
      scratch = std::max(scratch, item.forward_scratch);
    }
    return std::pair(bytes, scratch);
  };
  // Read packed, written in bf16: all but the output's projection, of which most at once gate and up.
  const double elements = 4096.0 * (4096 + 2 * 1024 + 3 * 14336), largest = 4096.0 * 2 * 14336;
  CHECK(unpacked(1).first == Approx(elements * (2 + model.lora->nf4_bytes())));
  CHECK(unpacked(1).second == 2 * largest);
  CHECK(unpacked(4).first == Approx(elements / 4 * (2 + model.lora->nf4_bytes())));
}

TEST_CASE("Tensor ranks split the matrix of an adapter that shares the split axis, and sum the other's gradient") {
  const Graph graph = Graph::build(with_adapters(test::llama3_8b(), {"*.attention.*.weight", "*.ffn.*.weight"}));
  const auto check = [&](const std::string& name, std::vector<std::int64_t> shape, GradientSum sum) {
    const Parameter& parameter = named(graph, "layers.0." + name);
    INFO(parameter.name);
    CHECK(local_part(parameter, {{16, 1, 1}, 5, 0}).shape == shape);
    CHECK(local_elements(parameter, {16, 1, 1}) == element_count(shape));
    for (const bool splits_sequence : {false, true}) CHECK(gradient_sum(parameter, 16, splits_sequence) == sum);
  };
  check("attention.query.lora_a", {4, 4096}, GradientSum::tensor_group);
  check("attention.query.lora_b", {256, 4}, GradientSum::none);
  // Eight heads of keys on sixteen ranks.
  check("attention.key.lora_a", {4, 4096}, GradientSum::tensor_group);
  check("attention.key.lora_b", {128, 4}, GradientSum::copies);
  check("attention.output.lora_a", {4, 256}, GradientSum::none);
  check("attention.output.lora_b", {4096, 4}, GradientSum::tensor_group);
  check("ffn.down.lora_a", {4, 896}, GradientSum::none);
}

TEST_CASE("Modules of transformers name the same matrices as patterns") {
  const auto adapted = [](ModelRecipe model, const std::vector<std::string>& targets) {
    std::vector<std::string> names;
    for (const Parameter& parameter : Graph::build(with_adapters(std::move(model), targets)).parameters)
      if (parameter.adapter) names.push_back(parameter.name);
    return names;
  };
  const ModelRecipe llama = test::llama3_8b();
  CHECK(adapted(llama, {"q_proj", "down_proj"}) == adapted(llama, {"*.query.weight", "*.ffn.down.weight"}));
  CHECK(
      adapted(llama, {"k_proj", "v_proj", "o_proj", "gate_proj", "up_proj"}) ==
      adapted(llama, {"*.key.weight", "*.value.weight", "*.attention.output.weight", "*.gate.weight", "*.up.weight"}));
  CHECK(adapted(llama, {"all-linear"}) == adapted(llama, {"*"}));
  CHECK(adapted(llama, {"all-linear"}).size() == 2 * 7);
  const ModelRecipe gpt2 = test::gpt2_model(2, 64, 4);
  CHECK(adapted(gpt2, {"c_attn", "c_fc"}) ==
        adapted(gpt2, {"*.query.weight", "*.key.weight", "*.attention.value.weight", "*.up.weight"}));
  CHECK(adapted(gpt2, {"c_proj"}) == adapted(gpt2, {"*.attention.output.weight", "*.down.weight"}));
}

TEST_CASE("Rank-stabilized adapters are divided by the root of their rank") {
  ModelRecipe model = with_adapters(test::llama3_8b(), {"q_proj"});
  CHECK(named(Graph::build(model), "layers.0.attention.query.weight").adapter->scale == 8.0 / 4);
  model.lora->rank_stabilized = true;
  CHECK(named(Graph::build(model), "layers.0.attention.query.weight").adapter->scale == 8.0 / 2);
}

TEST_CASE("Modules to save are trained as a whole beside adapters") {
  const auto trained = [](ModelRecipe model, const std::vector<std::string>& modules) {
    model = with_adapters(std::move(model), {"q_proj"});
    model.layers = 1;
    model.lora->modules_to_save = modules;
    std::vector<std::string> names;
    for (const Parameter& parameter : Graph::build(model).parameters)
      if (!parameter.is_frozen && !parameter.is_adapter) names.push_back(parameter.name);
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(trained(test::llama3_8b(), {}).empty());
  CHECK(trained(test::llama3_8b(), {"embed_tokens", "lm_head"}) == Names{"embedding.token.weight", "head.weight"});
  const ModelRecipe gpt2 = test::gpt2_model(2, 64, 4);
  const Names norms{"layers.0.attention_norm.weight", "layers.0.attention_norm.bias", "final_norm.weight",
                    "final_norm.bias"};
  CHECK(trained(gpt2, {"ln_1", "ln_f"}) == norms);
  // A parameter stands for its module.
  CHECK(trained(gpt2, {"layers.0.attention_norm.bias", "final_norm"}) == norms);
  CHECK_THROWS_WITH(trained(gpt2, {"lm_head"}),
                    Catch::StartsWith("/model/lora/modules_to_save/0: \"lm_head\" matches no module"));
  CHECK_THROWS_WITH(trained(test::llama3_8b(), {"head", "q_proj"}),
                    Catch::StartsWith("/model/lora/modules_to_save: names layers.0.attention.query.weight, which "
                                      "model.lora.targets name, too"));
  CHECK_THROWS_WITH(trained(test::llama3_8b(), {"gate_proj"}),
                    Catch::StartsWith("/model/lora/modules_to_save: layers.0.ffn.up.weight is frozen and "
                                      "layers.0.ffn.gate.weight is trained"));
  CHECK_THROWS_WITH(trained(test::mixtral_8x7b(), {"*.ffn.experts.*"}),
                    Catch::StartsWith("/model/lora/modules_to_save/0"));
}

TEST_CASE("Targets that name no matrix of a layer are refused") {
  const auto refusal = [](ModelRecipe model, const std::vector<std::string>& targets) -> std::string {
    try {
      Graph::build(with_adapters(std::move(model), targets));
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::bad_recipe);
      return error.what();
    }
    return "";
  };
  CHECK_THAT(refusal(test::llama3_8b(), {"*.query.weight", "head.weight"}),
             Catch::StartsWith("/model/lora/targets/1: \"head.weight\" matches no matrix"));
  CHECK_THAT(refusal(test::llama3_8b(), {"q_proj", "c_attn_", "o_proj"}),
             Catch::StartsWith("/model/lora/targets/1: \"c_attn_\" matches no matrix"));
  CHECK_THAT(refusal(test::gpt2_model(2, 64, 4), {"gate_proj"}),
             Catch::StartsWith("/model/lora/targets/0: \"gate_proj\""));
  CHECK_THAT(refusal(test::llama3_8b(), {}), Catch::StartsWith("/model/lora/targets: is empty"));
  CHECK_THAT(refusal(test::mixtral_8x7b(), {"*.ffn.experts.*"}), Catch::StartsWith("/model/lora/targets/0"));
  CHECK(refusal(test::mixtral_8x7b(), {"*"}).empty());
}

}  // namespace
}  // namespace llmtrain
