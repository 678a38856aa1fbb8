// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

PassSetting variant_setting(std::int64_t tensor = 1) {
  PassSetting setting;
  setting.program.kept_tensors = KeptTensors::megatron;
  setting.program.attention = AttentionKernel::flash;
  setting.tokens.sequence_length = 64;
  setting.numbers.compute = DataType::bf16;
  setting.shards.tensor = tensor;
  return setting;
}

// Whole tensors that tensor ranks exchange in a layer, per token and in widths of the residual stream.
double rows_exchanged(const ModelRecipe& model, Collective collective, Direction direction) {
  double bytes = 0;
  for (const Operator& item : test::operators_of(Graph::build(model), 1, variant_setting(4)))
    for (const Exchange& exchange : item.exchanges)
      if (exchange.collective == collective && exchange.direction == direction) bytes += exchange.bytes;
  return bytes / 64 / 2 / static_cast<double>(model.hidden_size);
}

bool has_operator(const ModelRecipe& model, std::string_view name) {
  for (const Operator& item : test::operators_of(Graph::build(model), 1, variant_setting()))
    if (item.name == name) return true;
  return false;
}

double bytes_kept(const ModelRecipe& model) {
  return test::saved_bytes(Graph::build(model), 1, variant_setting()) / 64 / 2;
}

// As GptOssForCausalLM and Gemma3ForCausalLM of transformers count them, on the meta device.
TEST_CASE("parameter counts of models with local layers") {
  const Graph small = Graph::build(test::gpt_oss(24, 32)), large = Graph::build(test::gpt_oss(36, 128));
  CHECK(small.parameter_count() == 20'914'757'184);
  CHECK(large.parameter_count() == 116'829'156'672);
  // Each expert has three matrices and their biases.
  const std::int64_t expert = 3 * (2880LL * 2880 + 2880);
  CHECK(large.active_parameter_count() == 116'829'156'672 - 36 * 124 * expert);
  CHECK(Graph::build(test::gemma3_27b()).parameter_count() == 27'009'346'304);
}

TEST_CASE("gated activations have a matrix more, and read two tensors") {
  for (const Activation activation :
       {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::squared_relu, Activation::swiglu,
        Activation::geglu, Activation::geglu_tanh, Activation::clamped_swiglu}) {
    ModelRecipe model = test::llama3_8b();
    const double swiglu = bytes_kept(model), width = static_cast<double>(model.ffn_hidden_size);
    const std::int64_t all = Graph::build(model).parameter_count();
    model.activation = activation;
    const bool has_gate = Graph::build(model).has_parameter(1, "ffn.gate.weight");
    CHECK(has_gate == (activation >= Activation::swiglu));
    CHECK(all - Graph::build(model).parameter_count() ==
          (has_gate ? 0 : model.layers * model.hidden_size * model.ffn_hidden_size));
    CHECK(swiglu - bytes_kept(model) == (has_gate ? 0 : width));
  }
}

TEST_CASE("each rank has the sinks of its heads") {
  ModelRecipe model = test::llama3_8b();
  const std::int64_t without = Graph::build(model).parameter_count();
  model.attention_sinks = true;
  const Graph graph = Graph::build(model);
  CHECK(graph.parameter_count() - without == model.layers * model.heads);
  CHECK(local_elements(graph.parameter(1, "attention.sinks"), {.tensor = 8}) == model.heads / 8);
}

// A norm's weight of the hidden size behind each half, whose input is kept.
TEST_CASE("norms behind the halves of a layer keep what these make") {
  ModelRecipe model = test::llama3_8b();
  const std::int64_t without = Graph::build(model).parameter_count();
  const double kept_without = bytes_kept(model);
  model.post_norms = true;
  CHECK(Graph::build(model).parameter_count() - without == model.layers * 2 * model.hidden_size);
  CHECK(bytes_kept(model) - kept_without == 2 * static_cast<double>(model.hidden_size));
  CHECK(has_operator(model, "attention.post_norm"));
  CHECK(has_operator(model, "feed_forward.post_norm"));
}

// With one norm Falcon's layer has two all-reduces, one for each pass, where one half after the other has four.
TEST_CASE("halves that read the same input are added up at once") {
  ModelRecipe model = test::llama3_8b();
  const auto sums = [&](Direction direction) { return rows_exchanged(model, Collective::all_reduce, direction); };
  const std::int64_t all = Graph::build(model).parameter_count();
  const double kept_apart = bytes_kept(model), hidden = static_cast<double>(model.hidden_size);
  CHECK(sums(Direction::forward) == 2);
  CHECK(sums(Direction::backward) == 2);
  model.parallel_residual = ParallelResidual::two_norms;
  CHECK(sums(Direction::forward) == 1);
  CHECK(sums(Direction::backward) == 2);
  CHECK(Graph::build(model).parameter_count() == all);
  // What is between the halves does not exist.
  CHECK(kept_apart - bytes_kept(model) == hidden);
  model.parallel_residual = ParallelResidual::one_norm;
  CHECK(sums(Direction::forward) == 1);
  CHECK(sums(Direction::backward) == 1);
  CHECK(all - Graph::build(model).parameter_count() == model.layers * model.hidden_size);
  CHECK(kept_apart - bytes_kept(model) == 2 * hidden);
  CHECK_FALSE(has_operator(model, "feed_forward.norm"));
}

}  // namespace
}  // namespace llmtrain
