// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>

namespace llmtrain::kernels {
namespace {

struct Shape {
  std::int64_t batch, sequence, heads, kv_heads, head_dim;
};

struct Inputs {
  at::Tensor query, key, value, dout;
};

Inputs random_inputs(const Shape& s, at::ScalarType type) {
  const auto make = [&](std::int64_t heads) {
    return at::randn({s.batch, s.sequence, heads, s.head_dim}, at::kFloat).to(type);
  };
  return {make(s.heads), make(s.kv_heads), make(s.kv_heads), make(s.heads)};
}

// Attention by its definition, one element at a time, in float64.
double expected_out(const Inputs& x, const Shape& s, std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
  const auto q = x.query.accessor<double, 4>();
  const auto k = x.key.accessor<double, 4>();
  const auto v = x.value.accessor<double, 4>();
  const std::int64_t kv = h / (s.heads / s.kv_heads);
  double sum = 0, weighted = 0;
  for (std::int64_t past = 0; past <= t; ++past) {
    double score = 0;
    for (std::int64_t i = 0; i < s.head_dim; ++i) score += q[b][t][h][i] * k[b][past][kv][i];
    const double weight = std::exp(score / std::sqrt(static_cast<double>(s.head_dim)));
    sum += weight;
    weighted += weight * v[b][past][kv][d];
  }
  return weighted / sum;
}

double loss(const Inputs& x, const AttentionCall& setting) {
  return (attention_forward(x.query, x.key, x.value, setting).out * x.dout).sum().item<double>();
}

// Central difference at one element of an input.
double slope(Inputs x, at::Tensor Inputs::*input, std::int64_t element, const AttentionCall& setting) {
  constexpr double step = 1e-5;
  const at::Tensor original = x.*input;
  const auto at_offset = [&](double offset) {
    x.*input = original.clone();
    (x.*input).view(-1)[element] += offset;
    return loss(x, setting);
  };
  return (at_offset(step) - at_offset(-step)) / (2 * step);
}

void check_gradients(const Shape& shape, const AttentionCall& setting) {
  const Inputs x = random_inputs(shape, at::kDouble);
  const AttentionOutput saved = attention_forward(x.query, x.key, x.value, setting);
  const AttentionGradients gradients = attention_backward(x.dout, x.query, x.key, x.value, saved, setting);
  const auto check = [&](at::Tensor Inputs::*input, const at::Tensor& gradient) {
    const at::Tensor flat = gradient.contiguous().view(-1);
    for (std::int64_t i = 0; i < flat.size(0); i += 7)
      CHECK(flat[i].item<double>() == Approx(slope(x, input, i, setting)).margin(1e-7).epsilon(1e-5));
  };
  check(&Inputs::query, gradients.query);
  check(&Inputs::key, gradients.key);
  check(&Inputs::value, gradients.value);
}

}  // namespace

TEST_CASE("attention equals its definition", "[attention]") {
  const auto method = GENERATE(AttentionMethod::flash, AttentionMethod::math);
  for (const Shape& s : {Shape{1, 1, 1, 1, 4}, Shape{2, 5, 4, 2, 6}, Shape{1, 9, 6, 1, 8}, Shape{3, 4, 3, 3, 2}}) {
    const Inputs x = random_inputs(s, at::kDouble);
    const at::Tensor result = attention_forward(x.query, x.key, x.value, {method}).out;
    REQUIRE(result.sizes() == x.query.sizes());
    const auto out = result.accessor<double, 4>();
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t t = 0; t < s.sequence; ++t)
        for (std::int64_t h = 0; h < s.heads; ++h)
          for (std::int64_t d = 0; d < s.head_dim; ++d)
            CHECK(out[b][t][h][d] == Approx(expected_out(x, s, b, t, h, d)).margin(1e-12));
  }
}

TEST_CASE("attention's gradients match finite differences", "[attention]") {
  const auto method = GENERATE(AttentionMethod::flash, AttentionMethod::math);
  check_gradients({2, 5, 4, 2, 6}, {method});
  check_gradients({1, 7, 2, 2, 4}, {method});
}

TEST_CASE("attention's gradients match finite differences with dropout on the probabilities", "[attention]") {
  check_gradients({2, 6, 4, 2, 4}, {AttentionMethod::math, {0.3, dropout_key(1, 2, 3), 40}});
}

TEST_CASE("both methods agree in fp32 and bf16", "[attention]") {
  const Shape shape{2, 33, 4, 2, 16};
  for (const auto& [type, tolerance] : {std::pair{at::kFloat, 1e-5}, std::pair{at::kBFloat16, 3e-2}}) {
    const Inputs x = random_inputs(shape, type);
    const AttentionOutput flash = attention_forward(x.query, x.key, x.value, {});
    const AttentionOutput math = attention_forward(x.query, x.key, x.value, {AttentionMethod::math});
    CHECK((flash.out - math.out).abs().max().item<double>() < tolerance);
    const auto a = attention_backward(x.dout, x.query, x.key, x.value, flash, {});
    const auto b = attention_backward(x.dout, x.query, x.key, x.value, math, {AttentionMethod::math});
    // Sums over the group and the sequence: errors of a few dozen terms of size one.
    CHECK((a.query - b.query).abs().max().item<double>() < 10 * tolerance);
    CHECK((a.key - b.key).abs().max().item<double>() < 10 * tolerance);
    CHECK((a.value - b.value).abs().max().item<double>() < 10 * tolerance);
  }
}

TEST_CASE("attention reads slices of a fused tensor", "[attention]") {
  const at::Tensor fused = at::randn({2, 8, 4 + 2 * 2, 16}, at::kFloat);
  const at::Tensor query = fused.narrow(2, 0, 4), key = fused.narrow(2, 4, 2), value = fused.narrow(2, 6, 2);
  for (const auto method : {AttentionMethod::flash, AttentionMethod::math}) {
    const at::Tensor sliced = attention_forward(query, key, value, {method}).out;
    const at::Tensor copied = attention_forward(query.contiguous(), key.contiguous(), value.contiguous(), {method}).out;
    CHECK((sliced - copied).abs().max().item<double>() < 1e-6);
  }
}

}  // namespace llmtrain::kernels
