// SPDX-License-Identifier: Apache-2.0
// Attention whose queries are a part of their sequences, compared with attention of whole sequences in float64, which
// attention_test.cpp tests.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "kernels/attention/attention.h"
#include "tests/kernels/tensor_error.h"
#include "tests/kernels/thread_count.h"

namespace llmtrain::kernels {
namespace {

constexpr std::int64_t sequence = 300;  // several blocks of the CPU's kernel

struct Case {
  at::Tensor query, key, value, dout;
};

Case random_case(at::ScalarType type) {
  constexpr std::int64_t batch = 2, heads = 4, kv_heads = 2, head_dim = 16;
  const auto make = [&](std::int64_t count) { return random_tensor({batch, sequence, count, head_dim}, type); };
  return {make(heads), make(kv_heads), make(kv_heads), make(heads)};
}

// The whole sequence, its end, its middle, one token, and the parts that ranks hold under context parallelism.
std::vector<SequencePart> parts() {
  return {{},
          {sequence, {{0, 300}}},
          {sequence, {{170, 130}}},
          {sequence, {{33, 140}}},
          {sequence, {{299, 1}}},
          {sequence, {{0, 75}, {225, 75}}},
          {sequence, {{50, 50}, {200, 50}}},
          {sequence, {{1, 1}, {3, 150}, {290, 10}}}};
}

std::vector<PositionRun> runs_of(const SequencePart& part) {
  return part.is_whole() ? std::vector<PositionRun>{{0, sequence}} : part.runs;
}

at::Tensor rows_of(const at::Tensor& x, const SequencePart& part) {
  std::vector<at::Tensor> pieces;
  for (const PositionRun& run : runs_of(part)) pieces.push_back(x.narrow(1, run.begin, run.length));
  return at::cat(pieces, 1);
}

struct Result {
  at::Tensor out;
  AttentionGradients gradients;
};

Result run(const Case& x, AttentionCall setting) {
  const AttentionOutput saved = attention_forward(x.query, x.key, x.value, setting);
  return {saved.out, attention_backward(x.dout, x.query, x.key, x.value, saved, setting)};
}

Result run_part(const Case& x, AttentionCall setting, const SequencePart& part) {
  setting.queries = part;
  return run({rows_of(x.query, part), x.key, x.value, rows_of(x.dout, part)}, setting);
}

// The rows of whole sequences in float64; the other queries get no gradient.
Result exact(const Case& x, AttentionCall setting, const SequencePart& part) {
  setting.method = AttentionMethod::math;
  const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
  at::Tensor dout = at::zeros_like(wide(x.dout));
  for (const auto& [begin, length] : runs_of(part))
    dout.narrow(1, begin, length).copy_(x.dout.narrow(1, begin, length));
  Result whole = run({wide(x.query), wide(x.key), wide(x.value), dout}, setting);
  whole.out = rows_of(whole.out, part);
  whole.gradients.query = rows_of(whole.gradients.query, part);
  return whole;
}

void check(const Result& got, const Result& want, double tolerance) {
  CHECK(largest_error(got.out, want.out) < tolerance);
  CHECK(largest_error(got.gradients.query, want.gradients.query) < 2 * tolerance);
  CHECK(largest_error(got.gradients.key, want.gradients.key) < 4 * tolerance);
  CHECK(largest_error(got.gradients.value, want.gradients.value) < 4 * tolerance);
}

}  // namespace

TEST_CASE("a part of the queries has the rows and gradients of the whole") {
  const auto method = GENERATE(AttentionMethod::flash, AttentionMethod::math);
  // float64 uses LibTorch's kernels, the other types ours.
  const auto [type, tolerance] = GENERATE(table<at::ScalarType, double>({{at::kDouble, 1e-12},
                                                                         {at::kFloat, 16 * fp32_rounding},
                                                                         {at::kBFloat16, 4 * bf16_rounding},
                                                                         {at::kHalf, 4 * fp16_rounding}}));
  const Case x = random_case(type);
  for (const SequencePart& part : parts()) {
    INFO(part.runs.size() << " runs, the first from " << (part.is_whole() ? 0 : part.runs.front().begin));
    check(run_part(x, {method}, part), exact(x, {}, part), tolerance);
  }
}

TEST_CASE("dropout of a part masks what it masks in the whole") {
  const AttentionCall setting{AttentionMethod::math, {0.3, dropout_key(1, 2, 3), 40}};
  const Case x = random_case(at::kDouble);
  for (const SequencePart& part : parts()) check(run_part(x, setting, part), exact(x, setting, part), 1e-12);
}

TEST_CASE("keys and values may be strided, as after a gather over ranks") {
  const Case x = random_case(at::kFloat);
  // [S, B, 2, heads, D]: both of all sequences, position after position.
  const at::Tensor both = at::cat(std::vector<at::Tensor>{x.key.unsqueeze(2), x.value.unsqueeze(2)}, 2)
                              .transpose(0, 1)
                              .contiguous()
                              .transpose(0, 1);
  const Case apart{x.query, both.select(2, 0), both.select(2, 1), x.dout};
  const SequencePart part{sequence, {{50, 50}, {200, 50}}};
  for (const auto method : {AttentionMethod::flash, AttentionMethod::math})
    check(run_part(apart, {method}, part), exact(x, {}, part), 16 * fp32_rounding);
}

TEST_CASE("attention of a part is bitwise the same with one and two threads") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const Case x = random_case(type);
  const auto once = [&] { return run_part(x, {}, {sequence, {{50, 50}, {200, 50}}}); };
  const Result one = with_threads(1, once), two = with_threads(2, once);
  CHECK(at::equal(one.out, two.out));
  CHECK(at::equal(one.gradients.key, two.gradients.key));
  CHECK(at::equal(one.gradients.value, two.gradients.value));
}

}  // namespace llmtrain::kernels
