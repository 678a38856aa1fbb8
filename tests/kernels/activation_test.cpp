// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>

#include "kernels/vector/activation.h"
#include "kernels/vector_dispatch.h"
#include "tests/kernels/tensor_error.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

ActivationKind any_kind() { return GENERATE(ActivationKind::gelu, ActivationKind::gelu_tanh, ActivationKind::swiglu); }

// A few roundings of values near 1: the exponential, the quotient, the products.
const double fp32_tolerance = 6 * fp32_rounding;
// One rounding to bf16 of a value that the fp32 error may move across a tie.
const double bf16_tolerance = 1.01 * bf16_rounding;

const char* approximation(ActivationKind kind) { return kind == ActivationKind::gelu_tanh ? "tanh" : "none"; }

at::Tensor exact_forward(const at::Tensor& x, ActivationKind kind) {
  const at::Tensor wide = x.to(at::kDouble);
  if (kind != ActivationKind::swiglu) return at::gelu(wide, approximation(kind));
  const std::int64_t width = x.size(-1) / 2;
  return at::silu(wide.narrow(-1, 0, width)) * wide.narrow(-1, width, width);
}

// silu'(g) = σ(g)(1 + g(1 − σ(g))).
at::Tensor exact_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind) {
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor wide_dy = dy.to(at::kDouble);
  if (kind != ActivationKind::swiglu) return at::gelu_backward(wide_dy, wide, approximation(kind));
  const std::int64_t width = x.size(-1) / 2;
  const at::Tensor gate = wide.narrow(-1, 0, width);
  const at::Tensor up = wide.narrow(-1, width, width);
  const at::Tensor sigmoid = gate.sigmoid();
  const at::Tensor slope = sigmoid * (gate * (-sigmoid + 1) + 1);
  return at::cat(std::vector<at::Tensor>{wide_dy * up * slope, wide_dy * gate * sigmoid}, -1);
}

at::Tensor random_input(std::int64_t rows, std::int64_t width, ActivationKind kind, at::ScalarType type) {
  return random_tensor({rows, kind == ActivationKind::swiglu ? 2 * width : width}, type).mul_(3);
}

double tolerance_of(at::ScalarType type) { return type == at::kFloat ? fp32_tolerance : bf16_tolerance; }

TEST_CASE("activations agree with float64 for plain and odd shapes") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const ActivationKind kind = any_kind();
  const auto [rows, width] = GENERATE(table<int, int>({{1, 1}, {1, 37}, {5, 64}, {3, 2049}, {70, 300}}));
  const at::Tensor x = random_input(rows, width, kind, type);
  const at::Tensor dy = random_tensor({rows, width}, type);
  const at::Tensor y = activation_forward(x, kind);
  const at::Tensor dx = activation_backward(dy, x, kind);
  CHECK(y.scalar_type() == type);
  CHECK(y.sizes() == dy.sizes());
  CHECK(dx.sizes() == x.sizes());
  CHECK(largest_error(y, exact_forward(x, kind)) < tolerance_of(type));
  // Two more products than in the forward.
  CHECK(largest_error(dx, exact_backward(dy, x, kind)) < 2 * tolerance_of(type));
}

TEST_CASE("values with a closed form") {
  const at::Tensor zero_and_one = at::tensor({0.0F, 1.0F});
  const double phi_of_one = 0.8413447460685429;  // Φ(1)
  CHECK(activation_forward(zero_and_one, ActivationKind::gelu)[0].item<float>() == 0.0F);
  CHECK(activation_forward(zero_and_one, ActivationKind::gelu)[1].item<double>() == Approx(phi_of_one).epsilon(2e-7));
  CHECK(activation_forward(zero_and_one, ActivationKind::gelu_tanh)[1].item<double>() ==
        Approx(0.841191990608276).epsilon(2e-7));
  const at::Tensor gate_one_up_two = at::tensor({1.0F, 2.0F}).view({1, 2});
  CHECK(activation_forward(gate_one_up_two, ActivationKind::swiglu).item<double>() ==
        Approx(2 / (1 + std::exp(-1.0))).epsilon(2e-7));
}

TEST_CASE("the gelus keep their relative accuracy in the lower tail, where 1 + tanh cancels") {
  const at::Tensor x = at::linspace(-9, -1, 4001, at::kFloat);
  // e^(−x²/2) amplifies the rounding of x²/2, at most 40 here.
  CHECK(largest_relative_error(activation_forward(x, ActivationKind::gelu),
                               x.to(at::kDouble) * (x.to(at::kDouble) * -M_SQRT1_2).erfc() * 0.5) < 60 * fp32_rounding);
  // The same for the three roundings of 2u, at most 67 here.
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor twice_inner = (wide + wide.pow(3) * 0.044715) * (2 * std::sqrt(2 / M_PI));
  CHECK(largest_relative_error(activation_forward(x, ActivationKind::gelu_tanh), wide * twice_inner.sigmoid()) <
        250 * fp32_rounding);
}

TEST_CASE("activations stay finite for large inputs") {
  const ActivationKind kind = any_kind();
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor x = at::tensor({-1e4F, 1e4F, -200.0F, 200.0F, -30.0F, 30.0F, -1e-30F, 0.0F}).to(type).view({1, 8});
  const at::Tensor dy = random_tensor({1, kind == ActivationKind::swiglu ? 4 : 8}, type);
  CHECK(largest_error(activation_forward(x, kind), exact_forward(x, kind)) < tolerance_of(type));
  CHECK(largest_error(activation_backward(dy, x, kind), exact_backward(dy, x, kind)) < 2 * tolerance_of(type));
}

TEST_CASE("NaN is propagated, whatever its payload") {
  const ActivationKind kind = any_kind();
  const auto bits = GENERATE(0x7FC00000U, 0x7FC00001U, 0xFFFFFFFFU, 0x7F8001FFU);
  const at::Tensor x = at::full({1, 2}, 0.0F);
  x.view(at::kInt).fill_(static_cast<std::int32_t>(bits));
  CHECK(activation_forward(x, kind).isnan().all().item<bool>());
  CHECK(activation_backward(at::ones_like(activation_forward(x, kind)), x, kind).isnan().all().item<bool>());
}

TEST_CASE("the float64 derivatives match finite differences of the float64 values") {
  const ActivationKind kind = any_kind();
  const at::Tensor x = random_input(4, 10, kind, at::kDouble);
  const at::Tensor dy = random_tensor({4, 10}, at::kDouble);
  const at::Tensor direction = random_tensor(x.sizes(), at::kDouble);
  const double step = 1e-6;
  const at::Tensor difference =
      activation_forward(x + direction * step, kind) - activation_forward(x - direction * step, kind);
  const double numeric = (difference * dy).sum().item<double>() / (2 * step);
  CHECK((activation_backward(dy, x, kind) * direction).sum().item<double>() == Approx(numeric).epsilon(1e-6));
}

TEST_CASE("every instruction-set level agrees with float64") {
  at_every_level([]<int level> {
    const auto kernels = vector::activation_kernels_for<level, float>();
    const at::Tensor x = random_input(5, 131, ActivationKind::gelu, at::kFloat);
    const at::Tensor dy = random_tensor({5, 131}, at::kFloat);
    const auto run = [&](vector::ActivationLoop<float> loop) {
      const at::Tensor out = at::empty_like(x);
      loop({.dy = elements<float>(dy),
            .x = elements<float>(x),
            .out = mutable_elements<float>(out),
            .rows = 5,
            .width = 131});
      return out;
    };
    INFO("level " << level);
    CHECK(largest_error(run(kernels.gelu.forward), exact_forward(x, ActivationKind::gelu)) < fp32_tolerance);
    CHECK(largest_error(run(kernels.gelu_tanh.forward), exact_forward(x, ActivationKind::gelu_tanh)) < fp32_tolerance);
    CHECK(largest_error(run(kernels.gelu.backward), exact_backward(dy, x, ActivationKind::gelu)) < 2 * fp32_tolerance);
    CHECK(largest_error(run(kernels.gelu_tanh.backward), exact_backward(dy, x, ActivationKind::gelu_tanh)) <
          2 * fp32_tolerance);
  });
}

TEST_CASE("swiglu in bf16 is correct at every instruction-set level") {
  at_every_level([]<int level> {
    const auto kernels = vector::activation_kernels_for<level, std::uint16_t>();
    const at::Tensor x = random_input(3, 75, ActivationKind::swiglu, at::kBFloat16);
    const at::Tensor dy = random_tensor({3, 75}, at::kBFloat16);
    const at::Tensor y = at::empty_like(dy);
    const at::Tensor dx = at::empty_like(x);
    const auto* dy_elements = elements<std::uint16_t>(dy);
    const auto* x_elements = elements<std::uint16_t>(x);
    kernels.swiglu.forward({nullptr, x_elements, mutable_elements<std::uint16_t>(y), 3, 75});
    kernels.swiglu.backward({dy_elements, x_elements, mutable_elements<std::uint16_t>(dx), 3, 75});
    INFO("level " << level);
    CHECK(largest_error(y, exact_forward(x, ActivationKind::swiglu)) < bf16_tolerance);
    CHECK(largest_error(dx, exact_backward(dy, x, ActivationKind::swiglu)) < bf16_tolerance);
  });
}

TEST_CASE("activations are bitwise the same with one and two threads") {
  const ActivationKind kind = any_kind();
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor x = random_input(101, 333, kind, type);
  const at::Tensor dy = random_tensor({101, 333}, type);
  const auto forward = [&] { return activation_forward(x, kind); };
  const auto backward = [&] { return activation_backward(dy, x, kind); };
  CHECK(at::equal(with_threads(1, forward), with_threads(2, forward)));
  CHECK(at::equal(with_threads(1, backward), with_threads(2, backward)));
}

TEST_CASE("other types and strides use the generic path and agree with float64") {
  const ActivationKind kind = any_kind();
  const at::Tensor strided = random_input(6, 40, kind, at::kFloat).t().contiguous().t();
  CHECK_FALSE(strided.is_contiguous());
  CHECK(largest_error(activation_forward(strided, kind), exact_forward(strided, kind)) < fp32_tolerance);
  const at::Tensor half = random_input(6, 40, kind, at::kHalf);
  // Eleven significant bits; LibTorch rounds silu before it multiplies.
  CHECK(largest_error(activation_forward(half, kind), exact_forward(half, kind)) < 3 * std::ldexp(1.0, -11));
}

TEST_CASE("zero rows are allowed") {
  const ActivationKind kind = any_kind();
  CHECK(activation_forward(at::empty({0, 8}), kind).size(0) == 0);
}

}  // namespace
}  // namespace llmtrain::kernels
