// SPDX-License-Identifier: Apache-2.0
// Attention that is not causal, of other rows, within documents of both sides and with a bias per head, against
// float64 over all pairs of rows and PyTorch's autograd.
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include "core/base/error.h"
#include "tests/kernels/attention/attention_reference.h"

namespace llmtrain::kernels {

TEST_CASE("attention of other rows and both sides' documents equals float64's") {
  const auto method = GENERATE(AttentionMethod::flash, AttentionMethod::math);
  // float64 uses LibTorch's kernels, the other types ours.
  const auto type = GENERATE(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf);
  for (const AttentionRows& rows : rows_of_all_kinds()) {
    INFO(rows.queries << " queries, " << rows.keys << " keys, " << rows.query_documents.size() << " documents");
    const AttentionCase x = random_case(rows, type);
    check(run(x, rows.call(method)), exact_attention(rows, x), tolerance_of(type));
  }
}

TEST_CASE("a bias per head and a scale enter the scores, and the bias has a gradient") {
  const auto type = GENERATE(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf);
  for (AttentionRows rows : rows_of_all_kinds()) {
    rows.is_causal = GENERATE(false, true) && rows.queries == rows.keys && rows.key_documents.empty();
    AttentionCase x = random_case(rows, type);
    x.bias = random_tensor({rows.heads, rows.queries, rows.keys}, at::kFloat);
    AttentionCall call = rows.call(AttentionMethod::math);
    call.bias = x.bias;
    call.scale = 0.5;
    // Sums over the sequences of gradients that are rounded to the type.
    check(run(x, call), exact_attention(rows, x, 0.5), 2 * tolerance_of(type));
  }
}

TEST_CASE("flash attention takes another scale") {
  const auto type = GENERATE(at::kDouble, at::kFloat);
  const AttentionRows rows{2, 40, 40, 4, 2, 8, {}, {}, GENERATE(false, true)};
  const AttentionCase x = random_case(rows, type);
  AttentionCall call = rows.call(AttentionMethod::flash);
  call.scale = 0.2;
  check(run(x, call), exact_attention(rows, x, 0.2), tolerance_of(type));
}

TEST_CASE("dropout of attention to other rows masks pairs of [samples, heads, queries, keys]") {
  const AttentionRows rows{2, 5, 9, 4, 2, 8};
  const AttentionCase x = random_case(rows, at::kDouble);
  AttentionCall call = rows.call(AttentionMethod::math);
  call.dropout = {0.3, dropout_key(1, 2, 3), 40};
  at::Tensor kept = at::ones({rows.batch, rows.heads, rows.queries, rows.keys}, at::kDouble);
  dropout_(kept, call.dropout);
  check(run(x, call), exact_attention(rows, x, std::nullopt, kept), 1e-12);
}

TEST_CASE("padding changes nothing of what is not padding, bitwise") {
  const auto method = GENERATE(AttentionMethod::flash, AttentionMethod::math);
  const auto type = GENERATE(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf);
  const AttentionCase x = random_case(padded_rows, type);
  const AttentionResult one = with_padding(x, padded_rows, method, 1), other = with_padding(x, padded_rows, method, 50);
  CHECK(at::equal(one.out, other.out));
  CHECK(at::equal(one.query, other.query));
  CHECK(at::equal(one.key, other.key));
  CHECK(at::equal(one.value, other.value));
}

TEST_CASE("a part of the queries sees other rows as the whole does") {
  const auto method = GENERATE(AttentionMethod::flash, AttentionMethod::math);
  const AttentionRows rows{
      2, 40, 9, 4, 2, 8, {{0, 20}, {20, 20}, {40, 33}, {73, 7}}, {{0, 6}, {6, 3}, {9, 2}, {11, 7}}};
  const bool has_documents = GENERATE(true, false);
  const AttentionRows seen = has_documents ? rows : AttentionRows{2, 40, 9, 4, 2, 8};
  const std::vector<PositionRun> runs{{2, 10}, {15, 10}};
  const auto of_part = [&](const at::Tensor& t, std::int64_t axis) {
    return at::cat(std::vector<at::Tensor>{t.narrow(axis, 2, 10), t.narrow(axis, 15, 10)}, axis);
  };
  AttentionCase x = random_case(seen, at::kDouble);
  x.dout = at::zeros(x.dout.sizes(), x.dout.options());
  for (const PositionRun& run : runs)
    x.dout.narrow(1, run.begin, run.length).copy_(random_tensor({2, run.length, 4, 8}, at::kDouble));
  if (method == AttentionMethod::math) x.bias = random_tensor({4, 40, 9}, at::kDouble);
  AttentionResult want = exact_attention(seen, x);
  want.out = of_part(want.out, 1);
  want.query = of_part(want.query, 1);
  AttentionCase at_hand{of_part(x.query, 1), x.key, x.value, of_part(x.dout, 1), {}};
  AttentionCall call = seen.call(method);
  call.queries = {40, runs};
  if (x.bias.defined()) {
    want.bias = of_part(want.bias, 1);
    call.bias = of_part(x.bias, 1);
  }
  check(run(at_hand, call), want, 1e-12);
}

TEST_CASE("what a method or a mask cannot do is refused with the reason") {
  using Catch::Contains;
  const AttentionRows rows{1, 4, 6, 2, 2, 8};
  const AttentionCase x = random_case(rows, at::kFloat);
  const auto reason = [&](const auto& change) -> std::string {
    AttentionCall call = rows.call(AttentionMethod::math);
    change(call);
    try {
      attention_forward(x.query, x.key, x.value, call);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  const std::vector<PositionRun> one{{0, 4}}, two{{0, 3}, {3, 3}};
  const auto flash = AttentionMethod::flash;
  CHECK_THAT(reason([&](AttentionCall& c) {
               c.method = flash, c.bias = at::ones({2, 4, 6});
             }),
             Contains("no scores that a bias per head could be added to"));
  CHECK_THAT(reason([&](AttentionCall& c) { c.method = flash, c.dropout.probability = 0.5; }),
             Contains("no probabilities that could be dropped"));
  CHECK_THAT(reason([](AttentionCall& c) { c.bias = at::ones({2, 6, 4}); }), Contains("[heads, queries, keys]"));
  CHECK_THAT(reason([](AttentionCall& c) { c.is_causal = true; }), Contains("of 4 positions, not 6"));
  CHECK_THAT(reason([&](AttentionCall& c) { c.documents.runs = one, c.key_documents.runs = two; }),
             Contains("1 documents of queries cannot be told which of 2 documents of keys"));
  CHECK_THAT(reason([&](AttentionCall& c) { c.documents.runs = one, c.dropout.probability = 0.5; }),
             Contains("placed by the pairs"));
}

}  // namespace llmtrain::kernels
