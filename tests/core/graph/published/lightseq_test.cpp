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
// each does: bytedance/lightseq, lightseq/training/csrc/ops/transformer_encoder_layer.cpp and
// transformer_decoder_layer.cpp, without quantization. Its attention is two kernels and two products, and one more
// kernel puts the heads in order; the keys and values of the cross-attentions of all layers are one product.
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

double moved_forward(const OperatorList& operators, const Launch& launch) {
  double elements = 0;
  for (const Operator& item : operators)
    if (std::ranges::find(launch.operators, item.name) != launch.operators.end()) elements += item.forward.elements;
  return elements;
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

}  // namespace llmtrain
