// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm.h"

#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>

#include "tests/kernels/norm_case.h"
#include "tests/kernels/tensor_error.h"
#include "tests/kernels/thread_count.h"

namespace llmtrain::kernels {
namespace {

at::ScalarType any_vector_type() { return GENERATE(at::kFloat, at::kBFloat16); }
NormMode any_mode() { return GENERATE(NormMode::layer, NormMode::root_mean_square); }

NormCase any_shape(NormMode mode, at::ScalarType type) {
  const auto [rows, width] = GENERATE(table<int, int>({{1, 64}, {3, 37}, {33, 5}, {65, 768}, {130, 256}}));
  return make_norm_case(rows, width, mode, type);
}

double tolerance_of(at::ScalarType type) {
  return type == at::kFloat ? fp32_tolerance : bf16_rounding + fp32_tolerance;
}

TEST_CASE("the norm of 1, 2, 3, 4 has mean 5/2 and variance 5/4; its root mean square is √(15/2)") {
  const at::Tensor x = at::tensor({1.0F, 2.0F, 3.0F, 4.0F}).view({1, 4});
  const at::Tensor ones = at::ones({4});
  const NormOutput layer = norm_forward(x, {NormMode::layer, ones, at::ones({4}), 0});
  CHECK(layer.mean.item<float>() == 2.5F);
  CHECK(layer.rstd.item<double>() == Approx(1 / std::sqrt(1.25)).epsilon(1e-6));
  CHECK(layer.y[0][3].item<double>() == Approx(1.5 / std::sqrt(1.25) + 1).epsilon(1e-6));
  const NormOutput rms = norm_forward(x, {NormMode::root_mean_square, ones, {}, 0});
  CHECK_FALSE(rms.mean.defined());
  CHECK(rms.y[0][3].item<double>() == Approx(4 / std::sqrt(7.5)).epsilon(1e-6));
}

TEST_CASE("the forward agrees with LibTorch's norms in float64") {
  const at::ScalarType type = any_vector_type();
  const NormMode mode = any_mode();
  const NormCase c = any_shape(mode, type);
  const NormOutput output = norm_forward(c.x, c.parameters);
  CHECK(output.y.scalar_type() == type);
  CHECK(output.rstd.scalar_type() == at::kFloat);
  CHECK(output.rstd.numel() == c.x.size(0));
  CHECK(largest_error(output.y, exact_norm(c)) < tolerance_of(type));
}

TEST_CASE("the reference agrees with LibTorch's norms in float64") {
  const NormCase c = make_norm_case(7, 33, any_mode(), at::kDouble);
  const NormOutput output = norm_forward(c.x, c.parameters);
  CHECK(output.rstd.scalar_type() == at::kDouble);
  CHECK(largest_error(output.y, exact_norm(c)) < 1e-14);
  CHECK(at::equal(norm_recompute(c.x, output.mean, output.rstd, c.parameters), output.y));
}

TEST_CASE("a large common offset does not cancel the variance") {
  NormCase c = make_norm_case(4, 768, NormMode::layer, at::kFloat);
  c.x.add_(1000);
  // Partial sums of 1000s are rounded a few times each; a variance from Σx² − (Σx)² would be off by a few per cent.
  CHECK(largest_error(norm_forward(c.x, c.parameters).y, exact_norm(c)) < 32 * 1000 * fp32_rounding);
}

TEST_CASE("a constant row is normalized to the bias") {
  NormCase c = make_norm_case(2, 40, NormMode::layer, any_vector_type());
  c.x.fill_(3);
  CHECK(at::equal(norm_forward(c.x, c.parameters).y[1], *c.parameters.bias));
}

TEST_CASE("add_norm is the sum, rounded, and then the norm") {
  const at::ScalarType type = any_vector_type();
  const NormCase c = any_shape(any_mode(), type);
  const at::Tensor before = random_tensor(c.x.sizes(), type);
  at::Tensor residual = before.clone();
  const NormOutput output = add_norm_forward(residual, c.x, c.parameters);
  CHECK(at::equal(residual, before + c.x));
  const NormOutput plain = norm_forward(residual, c.parameters);
  CHECK(at::equal(output.y, plain.y));
  CHECK(at::equal(output.rstd, plain.rstd));
}

TEST_CASE("recompute is bitwise equal to the forward") {
  const NormCase c = any_shape(any_mode(), any_vector_type());
  const NormOutput output = norm_forward(c.x, c.parameters);
  CHECK(at::equal(norm_recompute(c.x, output.mean, output.rstd, c.parameters), output.y));
  at::Tensor residual = random_tensor(c.x.sizes(), c.x.scalar_type());
  const NormOutput added = add_norm_forward(residual, c.x, c.parameters);
  CHECK(at::equal(norm_recompute(residual, added.mean, added.rstd, c.parameters), added.y));
}

TEST_CASE("the layer norm's backward adds the gradients of LibTorch's in float64") {
  const at::ScalarType type = any_vector_type();
  const NormCase c = any_shape(NormMode::layer, type);
  const std::int64_t width = c.x.size(1);
  const NormGradients before = random_gradients(c, at::kFloat);
  const NormGradients got = accumulated(c, before);
  const at::Tensor x = c.x.to(at::kDouble);
  const at::Tensor weight = c.parameters.weight.to(at::kDouble);
  const at::Tensor bias = c.parameters.bias->to(at::kDouble);
  const auto [y, mean, rstd] = at::native_layer_norm(x, {width}, weight, bias, c.parameters.eps);
  const auto [dx, dweight, dbias] =
      at::native_layer_norm_backward(c.dy.to(at::kDouble), x, {width}, mean, rstd, weight, bias, {true, true, true});
  // Gradients of the input depend on three means; those of the parameters are fp32 sums over blocks of 32 rows.
  CHECK(largest_error(got.dx, dx + before.dx) < 2 * tolerance_of(type));
  CHECK(largest_error(got.dweight, dweight + before.dweight) < 4 * fp32_tolerance);
  CHECK(largest_error(got.dbias, dbias + before.dbias) < 4 * fp32_tolerance);
}

TEST_CASE("the float64 backward matches finite differences of the float64 forward") {
  const NormCase c = make_norm_case(3, 11, any_mode(), at::kDouble);
  NormGradients gradients = zero_gradients(c);
  gradients = accumulated(c, gradients);
  const double step = 1e-6;
  const at::Tensor dx = random_tensor(c.x.sizes(), at::kDouble);
  const at::Tensor dweight = random_tensor(c.parameters.weight.sizes(), at::kDouble);
  const auto loss = [&](double distance) {
    NormParameters moved = c.parameters;
    moved.weight = moved.weight + dweight * distance;
    return (norm_forward(c.x + dx * distance, moved).y * c.dy).sum().item<double>();
  };
  const double analytic = ((gradients.dx * dx).sum() + (gradients.dweight * dweight).sum()).item<double>();
  CHECK(analytic == Approx((loss(step) - loss(-step)) / (2 * step)).epsilon(1e-6));
}

TEST_CASE("the root-mean-square backward agrees with the float64 reference") {
  const at::ScalarType type = any_vector_type();
  const NormCase c = any_shape(NormMode::root_mean_square, type);
  const NormGradients before = random_gradients(c, at::kFloat);
  const NormGradients got = accumulated(c, before);
  const NormCase wide = in_float64(c);
  const NormGradients want = accumulated(wide, in_float64(before));
  CHECK(largest_error(got.dx, want.dx) < 2 * tolerance_of(type));
  CHECK(largest_error(got.dweight, want.dweight) < 4 * fp32_tolerance);
}

TEST_CASE("gradients of bf16 parameters may be bf16 too, rounded once") {
  const NormCase c = make_norm_case(50, 70, any_mode(), at::kBFloat16);
  const NormGradients before = random_gradients(c, at::kBFloat16);
  const NormGradients got = accumulated(c, before);
  const NormGradients want = accumulated(in_float64(c), in_float64(before));
  CHECK(got.dweight.scalar_type() == at::kBFloat16);
  CHECK(largest_error(got.dweight, want.dweight) < bf16_rounding + 4 * fp32_tolerance);
}

TEST_CASE("fp32 parameters work with bf16 activations") {
  NormCase c = make_norm_case(9, 70, any_mode(), at::kBFloat16);
  c.parameters.weight = random_tensor({70}, at::kFloat);
  CHECK(largest_error(norm_forward(c.x, c.parameters).y, exact_norm(c)) < tolerance_of(at::kBFloat16));
}

TEST_CASE("norms are bitwise the same with one and two threads") {
  const NormCase c = make_norm_case(517, 129, any_mode(), any_vector_type());
  const NormGradients before = random_gradients(c, at::kFloat);
  const auto forward = [&] { return norm_forward(c.x, c.parameters).y; };
  const auto backward = [&] { return accumulated(c, before); };
  CHECK(at::equal(with_threads(1, forward), with_threads(2, forward)));
  const NormGradients one = with_threads(1, backward);
  const NormGradients two = with_threads(2, backward);
  CHECK(at::equal(one.dx, two.dx));
  CHECK(at::equal(one.dweight, two.dweight));
  if (c.parameters.bias) CHECK(at::equal(one.dbias, two.dbias));
}

TEST_CASE("strided rows and other types are normalized alike") {
  const NormMode mode = any_mode();
  const NormCase c = make_norm_case(12, 32, mode, at::kFloat);
  const at::Tensor strided = c.x.t().contiguous().t();
  CHECK_FALSE(strided.is_contiguous());
  CHECK(at::equal(norm_forward(strided, c.parameters).y, norm_forward(c.x, c.parameters).y));
  at::Tensor strided_residual = strided.clone(at::MemoryFormat::Preserve);
  at::Tensor residual = c.x.clone();
  const at::Tensor y = add_norm_forward(strided_residual, c.dy, c.parameters).y;
  CHECK(largest_error(y, add_norm_forward(residual, c.dy, c.parameters).y) < fp32_tolerance);
  CHECK(at::equal(strided_residual, residual));
  const NormCase half = make_norm_case(12, 32, mode, at::kHalf);
  CHECK(largest_error(norm_forward(half.x, half.parameters).y, exact_norm(half)) < std::ldexp(1.0, -10));
}

TEST_CASE("heads are rows: the last axis of [tokens, heads, head_dim] is normalised") {
  const NormCase c = make_norm_case(24, 16, any_mode(), any_vector_type());
  const at::Tensor heads = c.x.view({6, 4, 16});
  const NormOutput output = norm_forward(heads, c.parameters);
  CHECK(output.y.sizes() == heads.sizes());
  CHECK(output.rstd.numel() == 24);
  CHECK(at::equal(output.y.view({24, 16}), norm_forward(c.x, c.parameters).y));
}

}  // namespace
}  // namespace llmtrain::kernels
