// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <vector>

#include "kernels/vector/activation.h"
#include "kernels/vector_dispatch.h"
#include "tests/kernels/tensor_error.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

using Kind = ActivationKind;

Kind any_kind() {
  return GENERATE(Kind::gelu, Kind::gelu_tanh, Kind::relu, Kind::squared_relu, Kind::swiglu, Kind::geglu,
                  Kind::geglu_tanh, Kind::clamped_swiglu);
}

// A few roundings of values near 1: the exponential, the quotient, the products.
const double fp32_tolerance = 6 * fp32_rounding;
// One rounding to bf16 of a value that the fp32 error may move across a tie.
const double bf16_tolerance = 1.01 * bf16_rounding;

// In float64 as PyTorch has it, and as GPT-OSS's experts in transformers have it (modeling_gpt_oss.py, _apply_gate).
at::Tensor exact_forward(const at::Tensor& x, Kind kind) {
  const at::Tensor wide = x.to(at::kDouble);
  const auto half = [&](int index) { return wide.chunk(2, -1)[static_cast<std::size_t>(index)]; };
  switch (kind) {
    case Kind::gelu:
      return at::gelu(wide);
    case Kind::gelu_tanh:
      return at::gelu(wide, "tanh");
    case Kind::relu:
      return wide.relu();
    case Kind::squared_relu:
      return wide.relu().square();
    case Kind::swiglu:
      return at::silu(half(0)) * half(1);
    case Kind::geglu:
      return at::gelu(half(0)) * half(1);
    case Kind::geglu_tanh:
      return at::gelu(half(0), "tanh") * half(1);
    case Kind::clamped_swiglu:
      break;
  }
  const at::Tensor gate = half(0).clamp_max(7.0), up = half(1).clamp(-7.0, 7.0);
  return (up + 1) * (gate * (gate * 1.702).sigmoid());
}

// As PyTorch differentiates it.
at::Tensor exact_backward(const at::Tensor& dy, const at::Tensor& x, Kind kind) {
  const at::Tensor wide = x.to(at::kDouble).detach().requires_grad_(true);
  return torch::autograd::grad({exact_forward(wide, kind)}, {wide}, {dy.to(at::kDouble)})[0];
}

at::Tensor random_input(std::int64_t rows, std::int64_t width, Kind kind, at::ScalarType type) {
  return random_tensor({rows, is_gated(kind) ? 2 * width : width}, type).mul_(3);
}

double tolerance_of(at::ScalarType type) { return type == at::kFloat ? fp32_tolerance : bf16_tolerance; }

TEST_CASE("activations agree with float64 for plain and odd shapes") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const Kind kind = any_kind();
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
  CHECK(activation_forward(gate_one_up_two, Kind::geglu).item<double>() == Approx(2 * phi_of_one).epsilon(2e-7));
  CHECK(activation_forward(at::tensor({-2.0F, 3.0F}), Kind::relu).equal(at::tensor({0.0F, 3.0F})));
  CHECK(activation_forward(at::tensor({-2.0F, 3.0F}), Kind::squared_relu).equal(at::tensor({0.0F, 9.0F})));
  CHECK(activation_forward(gate_one_up_two, Kind::clamped_swiglu).item<double>() ==
        Approx(3 / (1 + std::exp(-1.702))).epsilon(2e-7));
}

TEST_CASE("a clamped swiglu is flat beyond its limits, and has its slope at them") {
  const auto type = GENERATE(at::kFloat, at::kDouble);  // loops, and LibTorch's operators
  const at::Tensor gates = at::tensor({6.0, 7.0, 7.5, -30.0, 1.0, 1.0, 1.0, 1.0}),
                   ups = at::tensor({0.5, 0.5, 0.5, 0.5, 6.5, 7.0, 8.0, -8.0});
  const at::Tensor x = at::stack({gates, ups}, -1).to(type), dy = at::ones({8, 1}, x.options());
  const at::Tensor dx = activation_backward(dy, x, Kind::clamped_swiglu);
  CHECK((dx.select(1, 0) != 0).equal(at::tensor({1, 1, 0, 1, 1, 1, 1, 1}).to(at::kBool)));
  CHECK((dx.select(1, 1) != 0).equal(at::tensor({1, 1, 1, 1, 1, 1, 0, 0}).to(at::kBool)));
  const at::Tensor y = activation_forward(x, Kind::clamped_swiglu);
  CHECK(y[1].equal(y[2]));
  CHECK(y[5].equal(y[6]));
  CHECK(y[7].item<double>() < 0);
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
  const Kind kind = any_kind();
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor x = at::tensor({-1e4F, 1e4F, -200.0F, 200.0F, -30.0F, 30.0F, -1e-30F, 0.0F}).to(type).view({1, 8});
  const at::Tensor dy = random_tensor({1, is_gated(kind) ? 4 : 8}, type);
  CHECK(largest_error(activation_forward(x, kind), exact_forward(x, kind)) < tolerance_of(type));
  CHECK(largest_error(activation_backward(dy, x, kind), exact_backward(dy, x, kind)) < 2 * tolerance_of(type));
}

TEST_CASE("NaN is propagated, whatever its payload") {
  const Kind kind = any_kind();
  const auto bits = GENERATE(0x7FC00000U, 0x7FC00001U, 0xFFFFFFFFU, 0x7F8001FFU);
  const at::Tensor x = at::full({1, 2}, 0.0F);
  x.view(at::kInt).fill_(static_cast<std::int32_t>(bits));
  CHECK(activation_forward(x, kind).isnan().all().item<bool>());
  CHECK(activation_backward(at::ones_like(activation_forward(x, kind)), x, kind).isnan().all().item<bool>());
}

TEST_CASE("the float64 derivatives match finite differences of the float64 values") {
  const Kind kind = any_kind();
  const at::Tensor x = random_input(4, 10, kind, at::kDouble);
  const at::Tensor dy = random_tensor({4, 10}, at::kDouble);
  const at::Tensor direction = random_tensor(x.sizes(), at::kDouble);
  const double step = 1e-6;
  const at::Tensor difference =
      activation_forward(x + direction * step, kind) - activation_forward(x - direction * step, kind);
  const double numeric = (difference * dy).sum().item<double>() / (2 * step);
  CHECK((activation_backward(dy, x, kind) * direction).sum().item<double>() == Approx(numeric).epsilon(1e-6));
}

template <class Element>
struct NamedPasses {
  Kind kind;
  vector::ActivationPasses<Element> passes;
};

template <int level, class Element>
std::vector<NamedPasses<Element>> all_passes() {
  const auto kernels = vector::activation_kernels_for<level, Element>();
  return {{Kind::gelu, kernels.gelu},
          {Kind::gelu_tanh, kernels.gelu_tanh},
          {Kind::relu, kernels.relu},
          {Kind::squared_relu, kernels.squared_relu},
          {Kind::swiglu, kernels.swiglu},
          {Kind::geglu, kernels.geglu},
          {Kind::geglu_tanh, kernels.geglu_tanh},
          {Kind::clamped_swiglu, kernels.clamped_swiglu}};
}

template <int level, class Element>
void check_level(at::ScalarType type) {
  for (const auto& [kind, passes] : all_passes<level, Element>()) {
    const at::Tensor x = random_input(5, 131, kind, type), dy = random_tensor({5, 131}, type);
    const at::Tensor y = at::empty_like(dy), dx = at::empty_like(x);
    passes.forward({nullptr, elements<Element>(x), mutable_elements<Element>(y), 5, 131});
    passes.backward({elements<Element>(dy), elements<Element>(x), mutable_elements<Element>(dx), 5, 131});
    INFO("level " << level << ", kind " << static_cast<int>(kind));
    CHECK(largest_error(y, exact_forward(x, kind)) < tolerance_of(type));
    CHECK(largest_error(dx, exact_backward(dy, x, kind)) < 2 * tolerance_of(type));
  }
}

TEST_CASE("every instruction-set level agrees with float64") {
  at_every_level([]<int level> {
    check_level<level, float>(at::kFloat);
    check_level<level, std::uint16_t>(at::kBFloat16);
  });
}

TEST_CASE("activations are bitwise the same with one and two threads") {
  const Kind kind = any_kind();
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor x = random_input(101, 333, kind, type);
  const at::Tensor dy = random_tensor({101, 333}, type);
  const auto forward = [&] { return activation_forward(x, kind); };
  const auto backward = [&] { return activation_backward(dy, x, kind); };
  CHECK(at::equal(with_threads(1, forward), with_threads(2, forward)));
  CHECK(at::equal(with_threads(1, backward), with_threads(2, backward)));
}

TEST_CASE("other types and strides use the generic path and agree with float64") {
  const Kind kind = any_kind();
  const at::Tensor strided = random_input(6, 40, kind, at::kFloat).t().contiguous().t();
  CHECK_FALSE(strided.is_contiguous());
  // LibTorch's gelus cancel in the lower tail, and up, which is below 12 here, multiplies what they lose.
  const double factor = is_gated(kind) ? 12 : 1;
  CHECK(largest_error(activation_forward(strided, kind), exact_forward(strided, kind)) < factor * fp32_tolerance);
  const at::Tensor half = random_input(6, 40, kind, at::kHalf);
  // Eleven significant bits; LibTorch rounds silu before it multiplies.
  CHECK(largest_error(activation_forward(half, kind), exact_forward(half, kind)) < 3 * std::ldexp(1.0, -11));
}

TEST_CASE("zero rows are allowed") {
  const Kind kind = any_kind();
  CHECK(activation_forward(at::empty({0, 8}), kind).size(0) == 0);
}

}  // namespace
}  // namespace llmtrain::kernels
