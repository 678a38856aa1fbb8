// SPDX-License-Identifier: Apache-2.0
// Steps in LibTorch's operators, here in float64: piece by piece, with the bits of a step on the whole.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>

#include "kernels/adamw.h"
#include "parallel/device/measurement.h"
#include "tests/kernels/thread_count.h"

namespace llmtrain::kernels {
namespace {

constexpr std::int64_t piece = 65536, elements = 5 * piece + 1001;

AdamwState random_state(at::ScalarType type) {
  const at::Tensor weights = at::randn({elements}, type);
  return {weights, at::randn({elements}, type), at::randn({elements}, type).square()};
}

AdamwStep third_step() { return {.learning_rate = 1e-2, .weight_decay = 0.1, .gradient_scale = 0.25, .step = 3}; }

// All elements at once.
AdamwState whole_step(const AdamwState& before, const at::Tensor& gradients, const AdamwStep& step) {
  const double first = 1 - std::pow(step.beta1, 3.0), second = 1 - std::pow(step.beta2, 3.0);
  const at::Tensor g = gradients.to(before.weights.scalar_type()).mul(step.gradient_scale);
  const at::Tensor m = before.m.lerp(g, 1 - step.beta1);
  const at::Tensor v = before.v.mul(step.beta2).addcmul(g, g, 1 - step.beta2);
  const at::Tensor denominator = v.sqrt().div(std::sqrt(second)).add(step.eps);
  const at::Tensor decayed = before.weights.mul(1 - step.learning_rate * step.weight_decay);
  return {decayed.addcdiv(m, denominator, -step.learning_rate / first), m, v};
}

}  // namespace

TEST_CASE("a step in operators gives the bits of one on the whole, whatever the gradients' type") {
  for (const auto type : {at::kDouble, at::kHalf, at::kBFloat16}) {
    AdamwState state = random_state(at::kDouble);
    const at::Tensor gradients = at::randn({elements}).to(type), rounded = at::zeros({elements}, at::kBFloat16);
    // On one thread, as threads share a tensor in parts that need not be whole vectors.
    const AdamwState expected = with_threads(1, [&] { return whole_step(state, gradients, third_step()); });
    with_threads(1, [&] {
      adamw_(state, gradients, third_step(), rounded);
      return 0;
    });
    CHECK(at::equal(state.weights, expected.weights));
    CHECK(at::equal(state.m, expected.m));
    CHECK(at::equal(state.v, expected.v));
    CHECK(at::equal(rounded, expected.weights.to(at::kBFloat16)));
  }
}

TEST_CASE("temporary memory of a step is that of two pieces, in operators as in loops") {
  for (const auto type : {at::kDouble, at::kFloat}) {
    AdamwState state = random_state(type);
    const at::Tensor gradients = at::randn({elements}).to(at::kHalf), rounded = at::zeros({elements}, at::kHalf);
    const MemoryWatch watch;
    adamw_(state, gradients, third_step(), rounded);
    CHECK(watch.memory().now() == 0);
    // Widened gradients at least.
    const auto bytes = static_cast<std::int64_t>(state.weights.element_size());
    CHECK(watch.memory().peak() >= piece * bytes);
    // And the operators' numbers, a few bytes each.
    CHECK(watch.memory().peak() <= 2 * piece * bytes + 1000);
  }
}

}  // namespace llmtrain::kernels
