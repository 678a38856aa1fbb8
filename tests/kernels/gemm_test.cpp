// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.h"
#include "kernels/separate_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "kernels/onednn/matmul.h"
#include "kernels/onednn/widened_matmul.h"
#include "tests/support/resident_memory.h"

namespace llmtrain::kernels {
namespace {

at::Tensor random(at::IntArrayRef shape, at::ScalarType type) { return at::randn(shape, at::kFloat).to(type); }

// Largest error against float64, relative to the sum of absolute products, which bounds the rounding error; below the
// normal numbers of fp16 the error is absolute.
double error(const at::Tensor& result, const at::Tensor& exact, const at::Tensor& magnitude) {
  const double least = result.scalar_type() == at::kHalf ? 0x1p-14 : 1e-30;
  return ((result.to(at::kDouble) - exact).abs() / magnitude.clamp_min(least)).max().item<double>();
}

struct Shape {
  std::int64_t tokens, input, output;
};
const std::vector<Shape> shapes{{1, 1, 1},     {1, 32, 257},  {1, 203, 259}, {3, 5, 7},
                                {64, 48, 257}, {17, 128, 96}, {256, 64, 33}};

// One rounding of the result and fp32 sums of at most a few hundred terms.
double tolerance(at::ScalarType type) {
  if (type == at::kHalf) return 1.0 / 2048;
  return type == at::kBFloat16 ? 1.0 / 256 : 1e-6;
}

}  // namespace

TEST_CASE("a linear layer's products equal float64's up to rounding", "[gemm]") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble);
  for (const Shape& shape : shapes) {
    const at::Tensor x = random({shape.tokens, shape.input}, type);
    const at::Tensor weight = random({shape.output, shape.input}, type);
    const at::Tensor bias = random({shape.output}, type);
    const at::Tensor dy = random({shape.tokens, shape.output}, type);
    const at::Tensor x64 = x.to(at::kDouble), w64 = weight.to(at::kDouble), d64 = dy.to(at::kDouble);
    const at::Tensor b64 = bias.to(at::kDouble);

    CHECK(error(kernels::linear(x, weight, std::nullopt), at::mm(x64, w64.t()), at::mm(x64.abs(), w64.t().abs())) <
          tolerance(type));
    CHECK(error(kernels::linear(x, weight, bias), at::mm(x64, w64.t()) + b64,
                at::mm(x64.abs(), w64.t().abs()) + b64.abs()) < tolerance(type));
    CHECK(error(linear_backward_input(dy, weight), at::mm(d64, w64), at::mm(d64.abs(), w64.abs())) < tolerance(type));
  }
}

TEST_CASE("weight gradients overwrite or accumulate, in the type of their memory", "[gemm]") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto memory = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  for (const Shape& shape : shapes) {
    const at::Tensor x = random({shape.tokens, shape.input}, type);
    const at::Tensor dy = random({shape.tokens, shape.output}, type);
    const at::Tensor before = random({shape.output, shape.input}, memory);
    const at::Tensor product = at::mm(dy.to(at::kDouble).t(), x.to(at::kDouble));
    const at::Tensor magnitude = at::mm(dy.to(at::kDouble).t().abs(), x.to(at::kDouble).abs());
    // A 16-bit result of other operands is rounded once more.
    const double bound = memory == at::kFloat ? 1e-6 : 2.5 * std::max(tolerance(type), tolerance(memory));

    at::Tensor overwritten = before.clone();
    linear_backward_weight(dy, x, overwritten, Accumulation::overwrite);
    CHECK(error(overwritten, product, magnitude) < bound);
    at::Tensor added = before.clone();
    linear_backward_weight(dy, x, added, Accumulation::add);
    CHECK(error(added, product + before.to(at::kDouble), magnitude + before.to(at::kDouble).abs()) < bound);
  }
}

TEST_CASE("bias gradients are column sums", "[gemm]") {
  const at::Tensor dy = random({129, 37}, at::kFloat);
  at::Tensor dbias = random({37}, at::kFloat);
  const at::Tensor before = dbias.to(at::kDouble);
  const at::Tensor sum = dy.to(at::kDouble).sum(0);
  linear_backward_bias(dy, dbias, Accumulation::add);
  CHECK((dbias.to(at::kDouble) - sum - before).abs().max().item<double>() < 1e-4);
  linear_backward_bias(dy, dbias, Accumulation::overwrite);
  CHECK((dbias.to(at::kDouble) - sum).abs().max().item<double>() < 1e-4);
}

TEST_CASE("the same product is bitwise reproducible", "[gemm]") {
  const at::Tensor x = random({64, 96}, at::kFloat), weight = random({80, 96}, at::kFloat);
  const at::Tensor first = kernels::linear(x, weight, std::nullopt);
  for (int i = 0; i < 5; ++i) CHECK(kernels::linear(x, weight, std::nullopt).equal(first));
}

TEST_CASE("separate rows have the bits that each has alone, whatever is beside it", "[gemm]") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  // Whole lanes and rests of them, and rows of the weight that are not a multiple of what a loop takes.
  const auto [input, output] =
      GENERATE(table<std::int64_t, std::int64_t>({{64, 48}, {45, 35}, {7, 3}, {600, 260}, {1030, 18}}));
  INFO(c10::toString(type) << ", " << input << " to " << output);
  const at::Tensor x = random({21, input}, type), weight = random({output, input}, type);
  const at::Tensor bias = random({output}, type);
  std::vector<at::Tensor> alone, alone_in_group;
  for (std::int64_t row = 0; row < 21; ++row) {
    const SeparateRows separate(true);
    alone.push_back(kernels::linear(x.narrow(0, row, 1), weight, bias));
    alone_in_group.push_back(at::empty({1, output}, x.options()));
    group_linear(x.narrow(0, row, 1), weight, bias, alone_in_group.back());
  }
  CHECK(kernels::linear(x.narrow(0, 0, 1), weight, bias).equal(alone.front()));
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 8, 15, 21}) {
    const SeparateRows separate(true);
    const at::Tensor together = kernels::linear(x.narrow(0, 21 - rows, rows), weight, bias);
    CHECK(together.equal(at::cat(alone).narrow(0, 21 - rows, rows)));
    const at::Tensor wide = random({21, 2 * output}, type);
    group_linear(x.narrow(0, 0, rows), weight, bias, wide.narrow(0, 0, rows).narrow(1, output, output));
    CHECK(wide.narrow(0, 0, rows).narrow(1, output, output).equal(at::cat(alone_in_group).narrow(0, 0, rows)));
  }
}

TEST_CASE("products of a group of rows equal float64's, between other columns, for any number of rows", "[gemm]") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble);
  for (const std::int64_t rows : {0, 1, 2, 7, 64, 129}) {
    INFO(rows << " rows");
    const std::int64_t input = 24, output = 40;
    // Columns of wider matrices, as gate and up have.
    const at::Tensor wide_x = random({rows, 2 * input}, type), wide_dy = random({rows, 2 * output}, type);
    const at::Tensor x = wide_x.narrow(1, input, input), dy = wide_dy.narrow(1, 0, output);
    const at::Tensor weight = random({output, input}, type), bias = random({output}, type);
    const at::Tensor x64 = x.to(at::kDouble), w64 = weight.to(at::kDouble), d64 = dy.to(at::kDouble);
    const double bound = tolerance(type) * 1.5;
    const auto check = [&](const at::Tensor& result, const at::Tensor& exact, const at::Tensor& magnitude) {
      if (result.numel() > 0) CHECK(error(result, exact, magnitude) < bound);
    };

    const at::Tensor y = random({rows, 2 * output}, type), y_before = y.clone();
    group_linear(x, weight, bias, y.narrow(1, output, output));
    check(y.narrow(1, output, output), at::mm(x64, w64.t()) + bias.to(at::kDouble),
          at::mm(x64.abs(), w64.t().abs()) + bias.abs());
    CHECK(y.narrow(1, 0, output).equal(y_before.narrow(1, 0, output)));

    for (const Accumulation accumulation : {Accumulation::overwrite, Accumulation::add}) {
      const double kept = accumulation == Accumulation::add ? 1 : 0;
      const at::Tensor dx = random({rows, input}, type), dx_before = dx.to(at::kDouble) * kept;
      group_backward_input(dy, weight, dx, accumulation);
      check(dx, at::mm(d64, w64) + dx_before, at::mm(d64.abs(), w64.abs()) + dx_before.abs());
      const auto sums = type == at::kDouble ? at::kDouble : at::kFloat;
      const at::Tensor dweight = random({output, input}, sums), before = dweight.to(at::kDouble) * kept;
      group_backward_weight(dy, x, dweight, accumulation);
      check(dweight, at::mm(d64.t(), x64) + before, at::mm(d64.t().abs(), x64.abs()) + before.abs());
    }
  }
}

// What oneDNN keeps of one shape is some tens of kilobytes: a thousand of them would be tens of megabytes.
TEST_CASE("groups of any number of rows share what is kept of a shape", "[gemm]") {
  // Sanitizer builds have no oneDNN, and the address sanitizer keeps freed memory.
  if (!has_onednn()) return;
  const at::Tensor x = random({2000, 32}, at::kFloat), weight = random({48, 32}, at::kFloat);
  const at::Tensor y = random({2000, 48}, at::kFloat), dx = random({2000, 32}, at::kFloat);
  const at::Tensor dweight = random({48, 32}, at::kFloat);
  const auto multiply = [&](std::int64_t rows) {
    group_linear(x.narrow(0, 0, rows), weight, std::nullopt, y.narrow(0, 0, rows));
    group_backward_input(y.narrow(0, 0, rows), weight, dx.narrow(0, 0, rows), Accumulation::overwrite);
    group_backward_weight(y.narrow(0, 0, rows), x.narrow(0, 0, rows), dweight, Accumulation::add);
  };
  for (std::int64_t rows = 1; rows < 2000; rows += 20) multiply(rows);
  const double before = test::resident_megabytes();
  for (std::int64_t rows = 2; rows < 2000; rows += 2) multiply(rows);
  CHECK(test::resident_megabytes() - before < 5);
}

TEST_CASE("products of many sizes share their working memory", "[gemm]") {
  if (!has_onednn()) return;
  const at::Tensor weight = at::randn({1024, 256}), x = at::randn({1024, 256}), dy = at::randn({1024, 1024});
  at::Tensor dweight = at::zeros({1024, 256});
  const auto multiply = [&](std::int64_t tokens) {
    kernels::linear(x.narrow(0, 0, tokens), weight, std::nullopt);
    kernels::linear_backward_input(dy.narrow(0, 0, tokens), weight);
    kernels::linear_backward_weight(dy.narrow(0, 0, tokens), x.narrow(0, 0, tokens), dweight, Accumulation::add);
  };
  // The largest first: as much as all others need, and memory that LibTorch keeps. Some more, as what products of a
  // processor without AVX-512 take and give back in each call comes to lie at the heap's end at one time or another.
  for (std::int64_t tokens = 1024; tokens > 768; tokens -= 16) multiply(tokens);
  const double before = test::resident_megabytes();
  for (std::int64_t tokens = 768; tokens > 256; tokens -= 16) multiply(tokens);
  CHECK(test::resident_megabytes() - before < 20);
}

namespace {

// A matrix in memory of its own, between other columns, as it is or transposed.
struct Stored {
  Stored(std::int64_t rows, std::int64_t columns, bool transposed)
      : memory(random(transposed ? std::array{columns, rows + 3} : std::array{rows, columns + 3}, at::kBFloat16)),
        matrix(transposed ? memory.narrow(1, 2, rows).t() : memory.narrow(1, 2, columns)) {}

  MatmulOperand operand() const { return {matrix.data_ptr(), matrix.stride(0), matrix.stride(1)}; }

  at::Tensor memory, matrix;
};

struct WidenedCase {
  Shape shape;
  VaryingSize varying;
  bool left_transposed, right_transposed;
};

// The processor that runs the tests may multiply bf16 by itself, and then nothing else comes here.
void check_widened(const WidenedCase& setting, at::ScalarType type, bool accumulate, bool biased) {
  const auto [rows, depth, columns] = setting.shape;
  const Stored left(rows, depth, setting.left_transposed), right(depth, columns, setting.right_transposed);
  const at::Tensor bias = random({columns}, at::kBFloat16), memory = random({rows, columns + 5}, type);
  const at::Tensor destination = memory.narrow(1, 1, columns), before = memory.clone();
  MatmulProblem problem;
  problem.m = rows, problem.n = columns, problem.k = depth;
  problem.varying = setting.varying;
  problem.operand_element = MatmulElement::bf16;
  problem.destination_element = type == at::kFloat ? MatmulElement::fp32 : MatmulElement::bf16;
  problem.accumulate = accumulate;
  problem.left = left.operand(), problem.right = right.operand();
  problem.bias = biased ? bias.data_ptr() : nullptr;
  problem.destination = destination.data_ptr();
  problem.destination_row_stride = destination.stride(0);
  widened_matmul(problem, onednn_matmul);

  const at::Tensor a = left.matrix.to(at::kDouble), b = right.matrix.to(at::kDouble);
  at::Tensor exact = at::mm(a, b), magnitude = at::mm(a.abs(), b.abs());
  const auto add = [&](const at::Tensor& term) { exact = exact + term, magnitude = magnitude + term.abs(); };
  if (accumulate) add(before.narrow(1, 1, columns).to(at::kDouble));
  if (biased) add(bias.to(at::kDouble));
  CHECK(error(destination, exact, magnitude) < tolerance(type));
  CHECK(memory.narrow(1, 0, 1).equal(before.narrow(1, 0, 1)));
  CHECK(memory.narrow(1, columns + 1, 4).equal(before.narrow(1, columns + 1, 4)));
}

}  // namespace

TEST_CASE("bf16 products in widened blocks equal float64's, whatever is cut, transposed or added to", "[gemm]") {
  if (!has_onednn()) return;
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto setting = GENERATE(WidenedCase{{3, 5, 7}, VaryingSize::none, false, true},
                                WidenedCase{{530, 1030, 40}, VaryingSize::none, false, true},
                                WidenedCase{{40, 1030, 530}, VaryingSize::none, false, false},
                                WidenedCase{{520, 24, 520}, VaryingSize::m, false, true},
                                WidenedCase{{24, 1030, 40}, VaryingSize::k, true, false});
  INFO(setting.shape.tokens << " x " << setting.shape.input << " x " << setting.shape.output);
  for (const bool accumulate : {false, true})
    for (const bool biased : {false, true}) check_widened(setting, type, accumulate, biased);
}

}  // namespace llmtrain::kernels
