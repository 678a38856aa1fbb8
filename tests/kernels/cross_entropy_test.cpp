// SPDX-License-Identifier: Apache-2.0
#include "kernels/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "kernels/vector/cross_entropy.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

struct Result {
  at::Tensor losses, gradient;
};

Result forward_backward(const at::Tensor& logits, const at::Tensor& targets, double scale) {
  at::Tensor gradient = logits.clone();
  at::Tensor losses = cross_entropy_forward_backward_(gradient, targets, scale);
  return {losses, gradient};
}

// LibTorch's own operators in float64.
Result expected_of(const at::Tensor& logits, const at::Tensor& targets, double scale) {
  const at::Tensor wide = logits.to(at::kDouble);
  const at::Tensor one_hot = at::one_hot(targets, logits.size(1)).to(at::kDouble);
  return {at::cross_entropy_loss(wide, targets, {}, 0), (wide.softmax(1) - one_hot) * scale};
}

double largest_difference(const at::Tensor& x, const at::Tensor& expected) {
  return (x.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>();
}

// Tolerance of the gradient, whose elements are at most scale: one rounding to the type, and fp32 arithmetic.
double gradient_tolerance(at::ScalarType type, double scale) {
  if (type == at::kDouble) return 1e-14 * scale;
  return scale * (type == at::kBFloat16 ? 4e-3 : (type == at::kHalf ? 5e-4 : 1e-6));
}

at::Tensor random_targets(std::int64_t rows, std::int64_t columns) {
  return at::randint(columns, {rows}, at::TensorOptions(at::kLong));
}

}  // namespace

TEST_CASE("the loss of equal logits is the logarithm of their number") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const at::Tensor logits = at::full({3, 64}, 5, at::TensorOptions(type));
  const auto [losses, gradient] = forward_backward(logits, at::tensor({0, 31, 63}, at::kLong), 64);
  CHECK(largest_difference(losses, at::full({3}, std::log(64.0), at::kDouble)) < 1e-6);
  CHECK(gradient[0][0].item<float>() == Approx(-63).epsilon(1e-5));
  CHECK(gradient[1][0].item<float>() == Approx(1).epsilon(1e-5));
  CHECK(gradient[2][63].item<float>() == Approx(-63).epsilon(1e-5));
}

TEST_CASE("losses and gradients agree with LibTorch's in float64") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble);
  const std::int64_t columns = GENERATE(1, 2, 15, 16, 17, 256, 1023, 1025, 5003);
  const std::int64_t rows = GENERATE(1, 7);
  const double scale = GENERATE(1.0, 0.01);
  const at::Tensor logits = (at::randn({rows, columns}) * 3).to(type);
  const at::Tensor targets = random_targets(rows, columns);
  const Result expected = expected_of(logits, targets, scale);
  const Result result = forward_backward(logits, targets, scale);
  CHECK(result.losses.scalar_type() == (type == at::kDouble ? at::kDouble : at::kFloat));
  CHECK(largest_difference(result.losses, expected.losses) < (type == at::kDouble ? 1e-13 : 2e-6));
  CHECK(largest_difference(result.gradient, expected.gradient) <= gradient_tolerance(type, scale));
  CHECK(at::equal(cross_entropy_forward(logits, targets), result.losses));
}

TEST_CASE("precision holds over a full-size vocabulary") {
  const at::Tensor logits = at::randn({8, 50257}) * 2;
  const at::Tensor targets = random_targets(8, 50257);
  const Result expected = expected_of(logits, targets, 1);
  const Result result = forward_backward(logits, targets, 1);
  CHECK(largest_difference(result.losses, expected.losses) < 2e-6);
  CHECK(((result.gradient - expected.gradient).abs() / expected.gradient.abs()).max().item<double>() < 2e-6);
  CHECK(result.gradient.to(at::kDouble).sum(1).abs().max().item<double>() < 2e-6);
}

TEST_CASE("bf16 gradients are rounded once") {
  const at::Tensor logits = at::randn({5, 777}).to(at::kBFloat16);
  const at::Tensor targets = random_targets(5, 777);
  const Result narrow = forward_backward(logits, targets, 1);
  const Result wide = forward_backward(logits.to(at::kFloat), targets, 1);
  const at::Tensor error = (narrow.gradient.to(at::kFloat) - wide.gradient).abs() / wide.gradient.abs();
  CHECK(error.max().item<double>() < std::ldexp(1.00001, -8));  // half a unit of the last of 8 bits
  CHECK(largest_difference(narrow.losses, wide.losses) < 1e-6);
}

TEST_CASE("extreme logits neither overflow nor make the loss inaccurate") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const double high = GENERATE(1e4, 3e38);
  at::Tensor logits = at::full({4, 100}, -high, at::kDouble);
  logits[0][3] = high;
  logits[1][3] = high;
  logits[2].fill_(high);
  logits = logits.to(type);
  const at::Tensor targets = at::tensor({3, 4, 5, 6}, at::kLong);
  const auto [losses, gradient] = forward_backward(logits, targets, 1);
  const double gap = 2 * logits[0][3].to(at::kDouble).item<double>();
  CHECK(losses[0].item<double>() == 0);
  CHECK(losses[1].to(at::kDouble).item<double>() == (type == at::kDouble ? gap : static_cast<float>(gap)));
  CHECK(losses[2].item<double>() == Approx(std::log(100.0)).epsilon(1e-6));
  CHECK(losses[3].item<double>() == Approx(std::log(100.0)).epsilon(1e-6));
  CHECK(gradient.isfinite().all().item<bool>());
  CHECK(gradient[0].abs().max().item<double>() == 0);
  CHECK(gradient[1][3].item<double>() == 1);
  CHECK(gradient[1][4].item<double>() == -1);
}

TEST_CASE("a masked logit of minus infinity is ignored") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  at::Tensor logits = at::randn({3, 70}).to(type);
  const at::Tensor targets = random_targets(3, 50);
  const Result expected = forward_backward(logits.narrow(1, 0, 50).contiguous(), targets, 1);
  logits.narrow(1, 50, 20).fill_(-std::numeric_limits<double>::infinity());
  const Result result = forward_backward(logits, targets, 1);
  CHECK(largest_difference(result.losses, expected.losses) < 1e-6);
  CHECK(result.gradient.narrow(1, 50, 20).abs().max().item<double>() == 0);
}

TEST_CASE("a NaN logit makes the loss NaN") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const std::int64_t place = GENERATE(0, 17, 69);
  at::Tensor logits = at::randn({2, 70}).to(type);
  logits[0][place] = GENERATE(std::nan(""), std::numeric_limits<double>::infinity());
  const auto [losses, gradient] = forward_backward(logits, at::tensor({1, 1}, at::kLong), 1);
  CHECK(std::isnan(losses[0].item<double>()));
  CHECK(gradient[0].isnan().any().item<bool>());
  CHECK(std::isfinite(losses[1].item<double>()));
}

namespace {

template <class Value>
void check_row(const vector::CrossEntropyRow<Value>& kernel, const at::Tensor& logits, std::int64_t target) {
  const Result expected = expected_of(logits.unsqueeze(0), at::full({1}, target, at::kLong), 0.5);
  at::Tensor gradient = at::zeros({logits.numel() + 1}, logits.options()).narrow(0, 1, logits.numel());  // unaligned
  gradient.copy_(logits);
  auto* row = static_cast<Value*>(gradient.data_ptr());
  const float loss = kernel.loss(row, logits.numel(), target);
  CHECK(loss == Approx(expected.losses[0].item<double>()).margin(2e-6));
  CHECK(kernel.loss_and_gradient(row, logits.numel(), target, 0.5F) == loss);
  CHECK(largest_difference(gradient, expected.gradient[0]) <= gradient_tolerance(logits.scalar_type(), 0.5));
}

}  // namespace

TEST_CASE("every instruction-set level gives the same loss and gradient") {
  const std::int64_t columns = GENERATE(1, 7, 33, 256, 1500);
  const at::Tensor logits = at::randn({columns}) * 4;
  const std::int64_t target = columns / 2;
  at_every_level([&]<int level> {
    const auto kernels = vector::cross_entropy_kernels_for<level>();
    check_row(kernels.fp32, logits, target);
    check_row(kernels.bf16, logits.to(at::kBFloat16), target);
  });
}

TEST_CASE("the loss does not depend on the number of threads") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor logits = at::randn({130, 1001}).to(type);
  const at::Tensor targets = random_targets(130, 1001);
  const auto make = [&] { return forward_backward(logits, targets, 0.1); };
  const Result one = with_threads(1, make);
  for (const int threads : {2, 3}) {
    const Result more = with_threads(threads, make);
    CHECK(at::equal(one.losses, more.losses));
    CHECK(at::equal(one.gradient, more.gradient));
  }
}

TEST_CASE("a strided chunk of logits gives the results of its copy") {
  const at::Tensor wide = at::randn({9, 80});
  at::Tensor view = wide.narrow(1, 3, 60);
  const at::Tensor targets = random_targets(9, 60);
  const Result expected = forward_backward(view.contiguous(), targets, 1);
  CHECK(largest_difference(cross_entropy_forward_backward_(view, targets, 1), expected.losses) < 2e-6);
  CHECK(largest_difference(view, expected.gradient) < 1e-6);
}

TEST_CASE("a target outside the vocabulary is bad data and changes nothing") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const std::int64_t target = GENERATE(-1LL, -100LL, 10LL, std::numeric_limits<long long>::max());
  const at::Tensor logits = at::randn({2, 10}).to(type);
  at::Tensor gradient = logits.clone();
  at::Tensor targets = at::zeros({2}, at::kLong);
  targets[1] = target;
  try {
    cross_entropy_forward_backward_(gradient, targets, 1);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_data);
    CHECK_THAT(error.what(),
               Catch::Contains("target " + std::to_string(target) + " of token 1") && Catch::Contains("[0, 10)"));
  }
  CHECK(at::equal(gradient, logits));
  CHECK_THROWS_AS(cross_entropy_forward(logits, targets), Error);
}

TEST_CASE("shapes that do not match are refused") {
  const at::Tensor logits = at::zeros({2, 10}, at::kFloat);
  CHECK_THROWS_AS(cross_entropy_forward(logits, at::zeros({3}, at::kLong)), Error);
  CHECK_THROWS_AS(cross_entropy_forward(logits, at::zeros({2}, at::kInt)), Error);
  CHECK_THROWS_AS(cross_entropy_forward(logits[0], at::zeros({10}, at::kLong)), Error);
}

TEST_CASE("no rows have no losses") {
  const auto type = GENERATE(at::kFloat, at::kDouble);
  CHECK(forward_backward(at::zeros({0, 10}, type), at::zeros({0}, at::kLong), 1).losses.numel() == 0);
}

TEST_CASE("slices of the vocabulary give the losses and gradients of the whole") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble, at::kHalf);
  const std::int64_t rows = 7, columns = 1301;
  const double scale = 0.25;
  const at::Tensor logits = at::randn({rows, columns}).mul_(4).to(type);
  const at::Tensor targets = random_targets(rows, columns);
  targets[0] = 0;
  targets[1] = columns - 1;
  const Result expected = expected_of(logits, targets, scale);
  const std::vector<std::int64_t> starts{0, 1, 700, columns};  // a single column, and at the end none
  std::vector<at::Tensor> parts, statistics;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t end = i + 1 < starts.size() ? starts[i + 1] : columns;
    parts.push_back(logits.slice(1, starts[i], end).contiguous());
    statistics.push_back(cross_entropy_statistics(parts[i], targets, {starts[i], columns}));
  }
  const at::Tensor whole = join_cross_entropy_statistics(at::stack(statistics));
  for (std::size_t i = 0; i < starts.size(); ++i)
    cross_entropy_backward_(parts[i], targets, {starts[i], columns}, whole, scale);
  CHECK(largest_difference(cross_entropy_losses(whole), expected.losses) < (type == at::kDouble ? 1e-12 : 2e-6));
  CHECK(largest_difference(at::cat(parts, 1), expected.gradient) < gradient_tolerance(type, scale));
}

TEST_CASE("a target outside the whole vocabulary is bad data in every slice") {
  const at::Tensor logits = at::zeros({2, 4});
  const at::Tensor targets = at::tensor({1, 12}, at::kLong);
  CHECK_NOTHROW(cross_entropy_statistics(logits, targets, {4, 13}));
  CHECK_THROWS_WITH(cross_entropy_statistics(logits, targets, {4, 12}), Catch::Contains("target 12 of token 1"));
}

}  // namespace llmtrain::kernels
