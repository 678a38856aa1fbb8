// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/body_operators.h"

#include <catch2/catch.hpp>

#include "core/body/body_writer.h"

namespace llmtrain {
namespace {

using body::AxisId;
using body::Body;
using body::BodyWriter;
using body::TensorId;

constexpr double token_rows = 5, features = 4, inner_features = 6, fp16_bytes = 2;

// x → product → gelu → product.
Body small_network() {
  BodyWriter w;
  const AxisId t = w.axis("t", 5), h = w.axis("h", 4), f = w.axis("f", 6);
  const TensorId x = w.input("x", {t, h}), up = w.parameter("up", {f, h}), down = w.parameter("down", {h, f});
  const TensorId inner = w.named(w.product(x, up, {t, f}), "inner");
  const TensorId active = w.named(w.elementwise(body::ElementwiseKind::gelu, {inner}), "active");
  w.output(w.named(w.product(active, down, {t, h}), "y"));
  return w.take();
}

Body attention_of(const body::Attention& attention) {
  BodyWriter w;
  const AxisId b = w.axis("b", 3), s = w.axis("s", 5), n = w.axis("n", 4), d = w.axis("d", 6), m = w.axis("m", 7);
  const AxisId g = w.axis("g", 2);
  const TensorId query = w.input("query", {b, s, n, d}), key = w.input("key", {b, m, g, d});
  w.output(w.attention(attention, query, key, w.input("value", {b, m, g, d})));
  return w.take();
}

}  // namespace

TEST_CASE("steps of a body are operators with their products, movements and levels of recompute") {
  const OperatorList operators = priced(small_network(), fp16_bytes);
  REQUIRE(operators.size() == 3);
  CHECK(operators[0].name == "inner");
  CHECK(operators[0].kind == OperatorKind::product);
  CHECK(operators[0].flops == 2 * token_rows * features * inner_features);
  CHECK(operators[0].product.flops() == operators[0].flops);
  CHECK(forward_flops(operators) == 4 * token_rows * features * inner_features);
  CHECK(backward_flops(operators) == 8 * token_rows * features * inner_features);
  CHECK(operators[1].kind == OperatorKind::elementwise);
  CHECK(operators[1].forward.elements == 2 * token_rows * inner_features);
  CHECK(operators[1].backward.elements == 3 * token_rows * inner_features);
  // The result of the last product is read by nobody's backward.
  CHECK_FALSE(is_repeated(operators[2], Recompute::full));
  CHECK(repeated_flops(operators, Recompute::full) == 2 * token_rows * features * inner_features);
  CHECK(is_repeated(operators[1], Recompute::selective));
  CHECK_FALSE(is_repeated(operators[0], Recompute::selective));
}

TEST_CASE("a body's saved bytes and peaks follow from who reads what") {
  const OperatorList operators = priced(small_network(), fp16_bytes);
  const double x = fp16_bytes * token_rows * features, inner = fp16_bytes * token_rows * inner_features;
  CHECK(saved_bytes(operators, Recompute::none) == x + 2 * inner);
  CHECK(saved_bytes(operators, Recompute::selective) == x + inner);
  CHECK(saved_bytes(operators, Recompute::full) == x);
  CHECK(kept_input_bytes(operators, Recompute::full, 0) == x);
  // Kept tensors and the result; then these, the gradients of result and activation, and that of the weight in fp32.
  const PassPeak peak = pass_peak(operators, Recompute::none, x);
  CHECK(peak.forward == x + 2 * inner + x);
  CHECK(peak.backward == x + 2 * inner + x + inner + 4 * features * inner_features);
}

TEST_CASE("the backward adds up the gradients of what several steps read, but for the last of these") {
  BodyWriter w;
  const AxisId t = w.axis("t", 5), h = w.axis("h", 4), f = w.axis("f", 6);
  const TensorId x = w.input("x", {t, h}), field = w.field("field", {t, h});
  const TensorId first = w.product(x, w.parameter("first.weight", {f, h}), {t, f});
  const TensorId second = w.product(x, w.parameter("second.weight", {f, h}), {t, f});
  const TensorId shifted = w.elementwise(body::ElementwiseKind::add, {x, field, field});
  w.output(w.elementwise(body::ElementwiseKind::add, {first, second}));
  w.output(shifted);
  const OperatorList operators = priced(w.take(), fp16_bytes);
  REQUIRE(operators.size() == 4);
  CHECK(operators[0].summed_gradients == 3 * 5 * 4);
  CHECK(operators[1].summed_gradients == 3 * 5 * 4);
  CHECK(operators[2].summed_gradients == 0);
  CHECK(operators[3].summed_gradients == 0);
}

TEST_CASE("a product with a field has one product in its backward") {
  BodyWriter w;
  const AxisId t = w.axis("t", 5), h = w.axis("h", 4), f = w.axis("f", 6);
  const TensorId x = w.field("x", {t, h});
  w.output(w.product(x, w.parameter("weight", {f, h}), {t, f}));
  const OperatorList operators = priced(w.take(), fp16_bytes);
  CHECK(backward_flops(operators) == forward_flops(operators));
  CHECK(saved_bytes(operators, Recompute::none) == 0);
}

TEST_CASE("attention of a body is fused, or keeps the scores that it stores") {
  const double scores = 3 * 4 * 5 * 7, inputs = fp16_bytes * (3 * 5 * 4 * 6 + 2 * 3 * 7 * 2 * 6);
  const double output = fp16_bytes * 3 * 5 * 4 * 6, score_rows = 3 * 4 * 5;
  const OperatorList fused = priced(attention_of({}), fp16_bytes);
  CHECK(fused[0].kind == OperatorKind::fused_attention);
  CHECK_FALSE(fused[0].is_causal);
  CHECK(fused[0].heads_per_key == 2);
  CHECK(fused[0].flops == 4 * scores * 6);
  CHECK(saved_bytes(fused, Recompute::none) == inputs + output + 4 * score_rows);
  CHECK(saved_bytes(fused, Recompute::selective) == saved_bytes(fused, Recompute::none));
  const OperatorList stored = priced(attention_of({.dropout = 0.1}), fp16_bytes);
  CHECK(stored[0].kind == OperatorKind::stored_attention);
  CHECK(saved_bytes(stored, Recompute::none) == inputs + output + fp16_bytes * scores);
  CHECK(saved_bytes(stored, Recompute::selective) == inputs + output);
  CHECK(is_repeated(stored[0], Recompute::selective));
}

}  // namespace llmtrain
