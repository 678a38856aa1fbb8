// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/body/families/bart.h"
#include "core/body/families/bert.h"
#include "core/body/families/vit.h"
#include "core/graph/operators/body_operators.h"

namespace llmtrain {
namespace {

// The launches of LightSeq2 (Wang et al., arXiv 2110.05722) in the forward of a layer, and the operators of bodies that
// each does: bytedance/lightseq, transformer_encoder_layer.cpp and transformer_decoder_layer.cpp in
// lightseq/csrc/layers, without quantization. Its attention is two kernels and two products, and one more
// kernel puts the heads in order; the keys and values of the cross-attentions of all layers are one product.
// In the backward a product is one for its input and one for its weight, and a norm a kernel for each of the two.
struct Launch {
  std::string name;
  std::vector<std::string> operators;  // none: bodies need none of it
};

using Launches = std::vector<Launch>;

void append(Launches& to, const Launches& more) { to.insert(to.end(), more.begin(), more.end()); }

// The launches of an attention with its residual and norm; a norm before the attention is listed behind it, too.
Launches attention_launches(const std::string& part, bool has_dropout) {
  Launches result{
      {"linear of query, key and value", {part + ".query.product", part + ".key.product", part + ".value.product"}},
      {"bias_add_transform", {part + ".query", part + ".key", part + ".value"}},
      {"scores", {part + ".mixed"}},
      {"softmax", {}},
      {"dropout", {}},
      {"context", {}},
      {"transform", {}},
      {"linear", {part + ".output.product"}},
      {"bias_dropout_residual", {part + ".output", part + "_sum"}},
      {"norm", {part + "_norm"}}};
  if (has_dropout) result[8].operators.push_back(part + ".output.dropout");
  return result;
}

Launches feed_forward_launches(bool has_dropout) {
  Launches result{{"linear", {"ffn.up.product"}},
                  {"bias_act_dropout", {"ffn.up", "ffn.active"}},
                  {"linear", {"ffn.down.product"}},
                  {"bias_dropout_residual", {"ffn.down", "ffn_sum"}},
                  {"norm", {"ffn_norm"}}};
  if (has_dropout) result[3].operators.push_back("ffn.output.dropout");
  return result;
}

Launches layer_launches(bool has_dropout) {
  Launches result = attention_launches("attention", has_dropout);
  append(result, feed_forward_launches(has_dropout));
  return result;
}

struct LayerKind {
  bool norms_before = false;
  bool has_dropout = true;
};

// Norms are first in the backward where they are behind the residual, and last where they are before: their kernel
// then adds the residual's gradient, for which one of its own is needed otherwise.
Launches norm_backward(const std::string& name, const LayerKind& layer) {
  Launches result{{"norm's scale and bias", {name}}, {"norm's input", {}}};
  if (!layer.norms_before) result.push_back({"fused_add2", {}});
  return result;
}

Launch residual_backward(const std::string& bias, const std::string& dropout, const LayerKind& layer) {
  Launch result{"bias_dropout_residual", {bias}};
  if (layer.has_dropout) result.operators.push_back(dropout);
  return result;
}

Launches product_backward(const std::string& name) {
  return {{name + "'s weight", {name + ".product"}}, {name + "'s input", {name + ".product"}}};
}

// `own` are the projections of the attention's own rows: of query, key and value, or of the query alone.
Launches attention_backward(const std::string& part, const std::vector<std::string>& own, const LayerKind& layer) {
  Launches result = norm_backward(part + "_norm", layer);
  Launch of_weight{"projections' weight", {}}, of_input{"projections' input", {}}, of_bias{"projections' bias", {}};
  for (const std::string& projection : own) {
    of_weight.operators.push_back(part + projection + ".product");
    of_input.operators.push_back(part + projection + ".product");
    of_bias.operators.push_back(part + projection);
  }
  result.push_back(residual_backward(part + ".output", part + ".output.dropout", layer));
  append(result, product_backward(part + ".output"));
  append(result, {{"transform", {}},
                  {"context's values", {part + ".mixed"}},
                  {"context's probabilities", {}},
                  {"dropout", {}},
                  {"softmax", {}},
                  {"scores' keys", {}},
                  {"scores' queries", {}},
                  {"transform of queries, keys and values", {}},
                  of_weight,
                  of_input,
                  of_bias});
  return result;
}

Launches feed_forward_backward(const LayerKind& layer) {
  Launches result = norm_backward("ffn_norm", layer);
  result.push_back(residual_backward("ffn.down", "ffn.output.dropout", layer));
  append(result, product_backward("ffn.down"));
  append(result, {{"bias_act_dropout", {"ffn.up", "ffn.active"}}});
  append(result, product_backward("ffn.up"));
  return result;
}

Launches layer_backward(const LayerKind& layer) {
  Launches result = attention_backward("attention", {".query", ".key", ".value"}, layer);
  append(result, feed_forward_backward(layer));
  return result;
}

// The steps of a body's backward, by the operators that they belong to: two for a product, and none where a gradient is
// handed on as it is.
std::vector<std::string> backward_steps(const OperatorList& operators) {
  std::vector<std::string> steps;
  for (const Operator& item : operators) {
    const bool is_product = item.kind == OperatorKind::product, is_pass = item.kind == OperatorKind::elementwise;
    const int count = is_product ? 2 : is_pass && item.backward.elements == 0 ? 0 : 1;
    steps.insert(steps.end(), count, item.name);
  }
  return steps;
}

// What the sums of gradients of tensors with several readers move, in elements: 3 for each of a sum.
double summed_gradients(const OperatorList& operators) {
  double elements = 0;
  for (const Operator& item : operators) elements += item.summed_gradients;
  return elements;
}

void check_covers_backward(const Launches& launches, const OperatorList& operators) {
  std::vector<std::string> expected, found = backward_steps(operators);
  for (const Launch& launch : launches)
    expected.insert(expected.end(), launch.operators.begin(), launch.operators.end());
  std::ranges::sort(expected);
  std::ranges::sort(found);
  CHECK(found == expected);
}

// Checks that each operator belongs to one launch.
void check_covers(const Launches& launches, const OperatorList& operators) {
  std::vector<std::string> expected, found;
  for (const Launch& launch : launches)
    expected.insert(expected.end(), launch.operators.begin(), launch.operators.end());
  for (const Operator& item : operators) found.push_back(item.name);
  std::ranges::sort(expected);
  std::ranges::sort(found);
  CHECK(found == expected);
}

double moved(const OperatorList& operators, const Launch& launch, Movement Operator::*pass) {
  double elements = 0;
  for (const Operator& item : operators)
    if (std::ranges::find(launch.operators, item.name) != launch.operators.end()) elements += (item.*pass).elements;
  return elements;
}
double moved_forward(const OperatorList& operators, const Launch& launch) {
  return moved(operators, launch, &Operator::forward);
}
double moved_backward(const OperatorList& operators, const Launch& launch) {
  return moved(operators, launch, &Operator::backward);
}

const Launch& launch_named(const Launches& launches, const std::string& name) {
  const auto found = std::ranges::find(launches, name, &Launch::name);
  REQUIRE(found != launches.end());
  return *found;
}

}  // namespace

TEST_CASE("an encoder's layer is LightSeq2's launches, of which the fused ones move less") {
  const OperatorList operators = priced(body::bert_layer({}, 4, 128), 2);
  const Launches launches = layer_launches(true);
  CHECK(launches.size() == 15);
  CHECK(operators.size() == 20);
  check_covers(launches, operators);
  const double hidden = 768, x = 4 * 128 * hidden;
  // Bias, dropout and sum are three passes, of which LightSeq2's kernel reads the first's operand and the residual and
  // writes the last's result: 3x.
  CHECK(moved_forward(operators, launch_named(launches, "bias_dropout_residual")) == 7 * x + hidden);
  // Bias and activation: LightSeq2's reads and writes the inner features once.
  CHECK(moved_forward(operators, launch_named(launches, "bias_act_dropout")) == 4 * 4 * x + 4 * hidden);
  // As much as LightSeq2's.
  CHECK(moved_forward(operators, launch_named(launches, "bias_add_transform")) == 6 * x + 3 * hidden);
  CHECK(moved_forward(operators, launch_named(launches, "norm")) == 2 * x);
}

TEST_CASE("a decoder's layer is LightSeq2's launches, with keys and values of its own") {
  const OperatorList operators = priced(body::bart_decoder_layer({}, 4, 128, 96), 2);
  Launches launches = layer_launches(true);
  append(launches, attention_launches("cross_attention", true));
  CHECK(launches.size() == 25);
  CHECK(operators.size() == 32);
  check_covers(launches, operators);
}

TEST_CASE("a layer of ViT is LightSeq2's launches without dropout") {
  const OperatorList operators = priced(body::vit_layer({}, 4), 2);
  const Launches launches = layer_launches(false);
  CHECK(operators.size() == 18);
  check_covers(launches, operators);
}

TEST_CASE("an encoder's layer has LightSeq2's launches in its backward, of which the fused ones move less") {
  const OperatorList operators = priced(body::bert_layer({}, 4, 128), 2);
  const Launches launches = layer_backward({});
  CHECK(launches.size() == 26);
  CHECK(backward_steps(operators).size() == 24);
  check_covers_backward(launches, operators);
  const double hidden = 768, x = 4 * 128 * hidden;
  // LightSeq2's two fused_add2 add up two gradients each, as it makes one gradient of query, key and value. Here each
  // of the three is added to the residual's.
  CHECK(summed_gradients(operators) == 4 * 3 * x);
  // Dropout and the bias's gradient: one kernel reads a gradient and writes one.
  CHECK(moved_backward(operators, launch_named(launches, "bias_dropout_residual")) == 3 * x + hidden);
  // Activation and the bias's gradient: one kernel reads what the forward read, and the gradient, and writes one.
  CHECK(moved_backward(operators, launch_named(launches, "bias_act_dropout")) == 4 * 4 * x + 4 * hidden);
}

TEST_CASE("a decoder's layer has LightSeq2's launches in its backward, and those of its own keys and values") {
  const body::BartModel model;
  const double sequences = 4, sources = 96, hidden = static_cast<double>(model.hidden), x = sequences * 128 * hidden;
  const OperatorList operators = priced(body::bart_decoder_layer(model, 4, 128, 96), 2);
  Launches launches = layer_backward({});
  append(launches, attention_backward("cross_attention", {".query"}, {}));
  CHECK(launches.size() == 43);
  // LightSeq2 launches these once for all layers, behind the first layer's backward.
  const Launches shared{{"transform", {}},
                        {"weight", {"cross_attention.key.product", "cross_attention.value.product"}},
                        {"input", {"cross_attention.key.product", "cross_attention.value.product"}},
                        {"bias", {"cross_attention.key", "cross_attention.value"}}};
  append(launches, shared);
  CHECK(backward_steps(operators).size() == 39);
  check_covers_backward(launches, operators);
  // Three of the layer's input, and of each norm's result one; of the source one, of keys and values.
  CHECK(summed_gradients(operators) == 3 * (5 * x + sequences * sources * hidden));
}

TEST_CASE("a layer of ViT has LightSeq2's launches with norms before in its backward") {
  const OperatorList operators = priced(body::vit_layer({}, 4), 2);
  const Launches launches = layer_backward({.norms_before = true, .has_dropout = false});
  CHECK(launches.size() == 24);
  CHECK(backward_steps(operators).size() == 22);
  check_covers_backward(launches, operators);
}

}  // namespace llmtrain
