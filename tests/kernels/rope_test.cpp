// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "core/base/error.h"
#include "kernels/vector/rope.h"
#include "kernels/vector_dispatch.h"
#include "tests/kernels/tensor_error.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

constexpr double theta = 10000;

// Two products and a sum of values near 1, and the rounding of the tables.
const double fp32_tolerance = 4 * fp32_rounding;

// x·cos + rotate_half(x)·sin with rotate_half(x) = (−x₂, x₁), as Hugging Face writes it, all in float64.
at::Tensor exact_rotation(const at::Tensor& x, std::int64_t sequence_length, double sign) {
  const at::Tensor wide = x.to(at::kDouble);
  const std::int64_t half = x.size(2) / 2;
  at::Tensor angles = at::empty({x.size(0), 1, x.size(2)}, at::kDouble);
  auto values = angles.accessor<double, 3>();
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    for (std::int64_t i = 0; i < x.size(2); ++i) {
      const double exponent = -2.0 * static_cast<double>(i % half) / static_cast<double>(x.size(2));
      values[t][0][i] = sign * static_cast<double>(t % sequence_length) * std::pow(theta, exponent);
    }
  }
  const at::Tensor rotated = at::cat(std::vector<at::Tensor>{-wide.narrow(2, half, half), wide.narrow(2, 0, half)}, 2);
  return wide * angles.cos() + rotated * angles.sin();
}

RopeTable table_for(const at::Tensor& x, std::int64_t sequence_length) {
  return make_rope_table(sequence_length, x.size(2), theta, at::kCPU);
}

at::Tensor rotated(const at::Tensor& x, std::int64_t sequence_length, RopeDirection direction) {
  at::Tensor result = x.clone();
  rope_(result, table_for(x, sequence_length), sequence_length, direction);
  return result;
}

double tolerance_of(at::ScalarType type) { return type == at::kFloat ? fp32_tolerance : bf16_rounding; }

TEST_CASE("the table holds p · theta^(−2i/head_dim)") {
  const RopeTable table = make_rope_table(100, 6, theta, at::kCPU);
  CHECK(table.cosine.sizes() == at::IntArrayRef({100, 3}));
  CHECK(table.cosine[0][2].item<float>() == 1.0F);
  CHECK(table.sine[1][0].item<double>() == Approx(std::sin(1.0)).epsilon(1e-7));
  CHECK(table.cosine[99][1].item<double>() == Approx(std::cos(99 * std::pow(theta, -2.0 / 6))).epsilon(1e-7));
}

TEST_CASE("a quarter turn takes (1, 0) to (0, 1)") {
  const RopeTable quarter{.cosine = at::tensor({0.0F}).view({1, 1}), .sine = at::tensor({1.0F}).view({1, 1})};
  at::Tensor x = at::tensor({1.0F, 0.0F}).view({1, 1, 2});
  rope_(x, quarter, 1, RopeDirection::forward);
  CHECK(at::equal(x.flatten(), at::tensor({0.0F, 1.0F})));
  rope_(x, quarter, 1, RopeDirection::backward);
  CHECK(at::equal(x.flatten(), at::tensor({1.0F, 0.0F})));
}

TEST_CASE("rotations agree with float64 in both directions") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto [tokens, heads, dim, length] =
      GENERATE(table<int, int, int, int>({{1, 1, 2, 1}, {7, 1, 6, 7}, {40, 3, 64, 10}, {33, 2, 38, 50}}));
  const at::Tensor x = random_tensor({tokens, heads, dim}, type);
  CHECK(largest_error(rotated(x, length, RopeDirection::forward), exact_rotation(x, length, 1)) < tolerance_of(type));
  CHECK(largest_error(rotated(x, length, RopeDirection::backward), exact_rotation(x, length, -1)) < tolerance_of(type));
}

TEST_CASE("backward undoes forward") {
  const at::Tensor x = random_tensor({20, 2, 16}, at::kFloat);
  const at::Tensor there = rotated(x, 20, RopeDirection::forward);
  CHECK_FALSE(largest_error(there, x) < 0.1);
  CHECK(largest_error(rotated(there, 20, RopeDirection::backward), x) < 2 * fp32_tolerance);
}

TEST_CASE("a slice of the fused query, key and value is rotated in place without changing its neighbours") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  // 13 elements of padding per token: rows at odd addresses.
  const at::Tensor fused = random_tensor({9, 5 * 8 + 13}, type);
  const at::Tensor before = fused.clone();
  at::Tensor slice = fused.narrow(1, 8, 2 * 8).view({9, 2, 8});
  rope_(slice, table_for(slice, 9), 9, RopeDirection::forward);
  const at::Tensor want = exact_rotation(before.narrow(1, 8, 16).contiguous().view({9, 2, 8}), 9, 1);
  CHECK(largest_error(slice, want) < tolerance_of(type));
  CHECK(at::equal(fused.narrow(1, 0, 8), before.narrow(1, 0, 8)));
  CHECK(at::equal(fused.narrow(1, 24, 29), before.narrow(1, 24, 29)));
}

TEST_CASE("positions start again with each sequence") {
  const at::Tensor x = random_tensor({4, 2, 8}, at::kFloat);
  const at::Tensor twice = at::cat(std::vector<at::Tensor>{x, x});
  const at::Tensor result = rotated(twice, 4, RopeDirection::forward);
  CHECK(at::equal(result.narrow(0, 0, 4), result.narrow(0, 4, 4)));
}

TEST_CASE("rotations are correct at every instruction-set level") {
  const at::Tensor x = random_tensor({5, 3, 38}, at::kFloat);
  const at::Tensor narrow = x.to(at::kBFloat16);
  const RopeTable table = table_for(x, 5);
  const auto run = [&]<class Element>(vector::RopeLoop<Element> loop, const at::Tensor& input) {
    const at::Tensor result = input.clone();
    loop({.x = mutable_elements<Element>(result),
          .cosine = elements<float>(table.cosine),
          .sine = elements<float>(table.sine),
          .tokens = 5,
          .heads = 3,
          .half = 19,
          .token_stride = 3 * 38,
          .head_stride = 38,
          .sequence_length = 5,
          .direction = 1});
    return largest_error(result, exact_rotation(input, 5, 1));
  };
  at_every_level([&]<int level> {
    INFO("level " << level);
    CHECK(run(vector::rope_loop_for<level, float>(), x) < fp32_tolerance);
    CHECK(run(vector::rope_loop_for<level, std::uint16_t>(), narrow) < bf16_rounding);
  });
}

TEST_CASE("rotations are bitwise the same with one and two threads") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor x = random_tensor({301, 4, 64}, type);
  const auto run = [&] { return rotated(x, 301, RopeDirection::forward); };
  CHECK(at::equal(with_threads(1, run), with_threads(2, run)));
}

TEST_CASE("other types and strides use the generic path") {
  const at::Tensor wide = random_tensor({6, 2, 10}, at::kDouble);
  // The tables are fp32.
  CHECK(largest_error(rotated(wide, 6, RopeDirection::forward), exact_rotation(wide, 6, 1)) < fp32_tolerance);
  at::Tensor transposed = random_tensor({6, 10, 2}, at::kFloat).transpose(1, 2);
  const at::Tensor want = exact_rotation(transposed.clone(), 6, -1);
  rope_(transposed, table_for(transposed, 6), 6, RopeDirection::backward);
  CHECK(largest_error(transposed, want) < fp32_tolerance);
}

TEST_CASE("a table that does not fit is refused") {
  at::Tensor x = random_tensor({6, 2, 8}, at::kFloat);
  const auto rotate = [&](const RopeTable& table, std::int64_t sequence_length) {
    rope_(x, table, sequence_length, RopeDirection::forward);
  };
  CHECK_THROWS_AS(rotate(make_rope_table(5, 8, theta, at::kCPU), 6), Error);
  CHECK_THROWS_AS(rotate(make_rope_table(6, 16, theta, at::kCPU), 6), Error);
  CHECK_THROWS_AS(rotate(make_rope_table(6, 8, theta, at::kCPU), 0), Error);
  CHECK_NOTHROW(rotate(make_rope_table(6, 8, theta, at::kCPU), 100));
}

}  // namespace
}  // namespace llmtrain::kernels
