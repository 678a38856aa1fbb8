// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "kernels/vector/adamw.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

AdamwState state_of(const at::Tensor& weights) {
  return {weights.clone(), at::zeros_like(weights), at::zeros_like(weights)};
}

AdamwState copy_of(const AdamwState& state) { return {state.weights.clone(), state.m.clone(), state.v.clone()}; }

AdamwState in_float64(const AdamwState& state) {
  return {state.weights.to(at::kDouble), state.m.to(at::kDouble), state.v.to(at::kDouble)};
}

// Largest difference, relative to the largest element.
double distance(const at::Tensor& x, const at::Tensor& expected) {
  const at::Tensor wide = expected.to(at::kDouble);
  return (x.to(at::kDouble) - wide).abs().max().item<double>() / (wide.abs().max().item<double>() + 1e-300);
}

bool same_bits(const AdamwState& a, const AdamwState& b) {
  return at::equal(a.weights, b.weights) && at::equal(a.m, b.m) && at::equal(a.v, b.v);
}

AdamwStep usual_step(std::int64_t step) {
  return {.learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .step = step};
}

void pytorch_step(AdamwState& state, const at::Tensor& gradients, const AdamwStep& step) {
  const at::Tensor before = at::full({}, static_cast<double>(step.step), at::kFloat);
  at::_fused_adamw_({state.weights}, {gradients}, {state.m}, {state.v}, {}, {before}, step.learning_rate, step.beta1,
                    step.beta2, step.weight_decay, step.eps, false, false);
}

template <int level>
void step_of_level(AdamwState& state, const at::Tensor& gradients, const AdamwConstants& constants,
                   const at::Tensor& compute_weights) {
  const auto kernels = vector::adamw_kernels_for<level>();
  auto* weights = state.weights.data_ptr<float>();
  auto* m = state.m.data_ptr<float>();
  auto* v = state.v.data_ptr<float>();
  auto* rounded = static_cast<std::uint16_t*>(compute_weights.data_ptr());
  const std::int64_t n = state.weights.numel();
  if (gradients.scalar_type() == at::kFloat) {
    kernels.fp32({weights, m, v, gradients.const_data_ptr<float>(), rounded}, constants, 0, n);
  } else {
    kernels.bf16({weights, m, v, static_cast<const std::uint16_t*>(gradients.const_data_ptr()), rounded}, constants, 0,
                 n);
  }
}

}  // namespace

TEST_CASE("the first step moves every weight by the learning rate against the sign of its gradient") {
  for (const auto type : {at::kFloat, at::kDouble}) {
    AdamwState state = state_of(at::zeros({5}, type));
    const at::Tensor gradients = at::ones({5}, type).cumsum(0).sub(3.5);
    adamw_(state, gradients, {.learning_rate = 0.25, .eps = 0, .weight_decay = 0, .step = 1}, {});
    CHECK(distance(state.weights, gradients.sign() * -0.25) < 1e-6);
  }
}

TEST_CASE("without a gradient weights only decay") {
  AdamwState state = state_of(at::ones({9}, at::kFloat));
  adamw_(state, at::zeros({9}, at::kFloat), {.learning_rate = 0.5, .weight_decay = 0.5, .step = 1}, {});
  CHECK(at::equal(state.weights, at::full({9}, 0.75, at::kFloat)));
}

TEST_CASE("twenty steps agree with PyTorch's AdamW in float64") {
  AdamwState ours = state_of(at::randn({257}, at::kDouble));
  AdamwState theirs = copy_of(ours);
  for (std::int64_t step = 1; step <= 20; ++step) {
    const at::Tensor gradients = at::randn({257}, at::kDouble);
    adamw_(ours, gradients, usual_step(step), {});
    pytorch_step(theirs, gradients, usual_step(step));
  }
  CHECK(distance(ours.weights, theirs.weights) < 1e-13);
  CHECK(distance(ours.m, theirs.m) < 1e-13);
  CHECK(distance(ours.v, theirs.v) < 1e-13);
}

TEST_CASE("twenty fused steps agree with PyTorch's AdamW in fp32 and float64") {
  const std::int64_t n = GENERATE(1, 15, 16, 17, 1000, 40001);
  AdamwState ours = state_of(at::randn({n}, at::kFloat));
  AdamwState theirs = copy_of(ours);
  AdamwState wide = in_float64(ours);
  for (std::int64_t step = 1; step <= 20; ++step) {
    const at::Tensor gradients = at::randn({n}, at::kFloat);
    adamw_(ours, gradients, usual_step(step), {});
    pytorch_step(theirs, gradients, usual_step(step));
    pytorch_step(wide, gradients.to(at::kDouble), usual_step(step));
  }
  CHECK(distance(ours.weights, theirs.weights) < 5e-6);
  CHECK(distance(ours.weights, wide.weights) < 5e-6);
  // Gradients of size one can cancel in m: its rounding error is relative to them, not to its own size.
  CHECK((ours.m.to(at::kDouble) - wide.m).abs().max().item<double>() < 2e-6);
  CHECK(distance(ours.v, wide.v) < 1e-6);
}

TEST_CASE("gradients of another type are converted by value, and compute weights rounded") {
  const auto type = GENERATE(at::kBFloat16, at::kHalf);
  for (const std::int64_t n : {999, 65536, 70001}) {
    const at::Tensor gradients = at::randn({n}).to(type);
    AdamwState narrow = state_of(at::randn({n}, at::kFloat));
    AdamwState wide = copy_of(narrow);
    const at::Tensor rounded = at::zeros({n}, type);
    adamw_(narrow, gradients, usual_step(3), rounded);
    adamw_(wide, gradients.to(at::kFloat), usual_step(3), {});
    CHECK(distance(narrow.weights, wide.weights) < 1e-7);
    CHECK(distance(narrow.m, wide.m) < 1e-7);
    CHECK(distance(narrow.v, wide.v) < 2e-7);
    CHECK(at::equal(rounded, narrow.weights.to(type)));
  }
}

TEST_CASE("the gradient scale is applied to the gradients first") {
  const auto type = GENERATE(at::kFloat, at::kDouble);
  const at::Tensor gradients = at::randn({77}, type);
  AdamwState scaled = state_of(at::randn({77}, type));
  AdamwState plain = copy_of(scaled);
  AdamwStep step = usual_step(2);
  adamw_(plain, gradients * 0.25, step, {});
  step.gradient_scale = 0.25;
  adamw_(scaled, gradients, step, {});
  CHECK(same_bits(scaled, plain));
}

TEST_CASE("compute weights are the new weights, rounded to nearest even") {
  const auto state_type = GENERATE(at::kFloat, at::kDouble);
  const auto type = GENERATE(at::kBFloat16, at::kHalf, at::kFloat);
  const std::int64_t n = GENERATE(1, 33, 20001);
  AdamwState state = state_of(at::randn({n}, state_type));
  AdamwState without = copy_of(state);
  const at::Tensor gradients = at::randn({n}, at::kFloat);
  const at::Tensor compute_weights = at::zeros({n}, type);
  adamw_(state, gradients, usual_step(1), compute_weights);
  adamw_(without, gradients, usual_step(1), {});
  CHECK(at::equal(compute_weights, state.weights.to(type)));
  CHECK(distance(state.weights, without.weights) < 1e-6);
}

TEST_CASE("every instruction-set level takes the same step, at any alignment") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const std::int64_t offset = GENERATE(0, 1, 3);
  const std::int64_t n = GENERATE(1, 15, 64, 101);
  const AdamwConstants constants{.gradient_scale = 0.5F,
                                 .decay = 0.999F,
                                 .one_minus_beta1 = 0.1F,
                                 .beta2 = 0.95F,
                                 .one_minus_beta2 = 0.05F,
                                 .root_of_correction = 0.3F,
                                 .eps = 1e-8F,
                                 .step_size = 0.01F};
  const auto slice = [&](const at::Tensor& x) { return x.narrow(0, offset, n); };
  const at::Tensor weights = at::randn({offset + n});
  const at::Tensor m = at::randn({offset + n});
  const at::Tensor v = at::randn({offset + n}).square();
  const at::Tensor gradients = slice(at::randn({offset + n}).to(type));
  const at::Tensor wide = gradients.to(at::kDouble) * 0.5;
  const at::Tensor new_m = slice(m).to(at::kDouble) * 0.9 + wide * 0.1;
  const at::Tensor new_v = slice(v).to(at::kDouble) * 0.95 + wide * wide * 0.05;
  const at::Tensor expected = slice(weights).to(at::kDouble) * 0.999 - new_m * 0.01 / (new_v.sqrt() / 0.3 + 1e-8);
  at_every_level([&]<int level> {
    AdamwState state{slice(weights.clone()), slice(m.clone()), slice(v.clone())};
    const at::Tensor rounded = slice(at::zeros({offset + n}, at::kBFloat16));
    step_of_level<level>(state, gradients, constants, rounded);
    CHECK(distance(state.weights, expected) < 1e-6);
    CHECK(distance(state.m, new_m) < 1e-6);
    CHECK(distance(state.v, new_v) < 1e-6);
    CHECK(at::equal(rounded, state.weights.to(at::kBFloat16)));
  });
}

TEST_CASE("a step does not depend on the number of threads") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const AdamwState start = state_of(at::randn({100003}, at::kFloat));
  const at::Tensor gradients = at::randn({100003}).to(type);
  const auto stepped = [&] {
    AdamwState state = copy_of(start);
    adamw_(state, gradients, usual_step(1), at::zeros({100003}, at::kBFloat16));
    return state;
  };
  const AdamwState one = with_threads(1, stepped);
  CHECK_FALSE(at::equal(one.weights, start.weights));
  CHECK(same_bits(one, with_threads(2, stepped)));
  CHECK(same_bits(one, with_threads(3, stepped)));
}

TEST_CASE("tensors of different sizes are refused by name") {
  AdamwState state = state_of(at::zeros({4}, at::kFloat));
  CHECK_THROWS_WITH(adamw_(state, at::zeros({5}, at::kFloat), {}, {}), Catch::Contains("gradients has 5"));
  CHECK_THROWS_AS(adamw_(state, at::zeros({4}, at::kFloat), {}, at::zeros({3}, at::kBFloat16)), Error);
}

TEST_CASE("empty tensors are allowed") {
  AdamwState state = state_of(at::zeros({0}, at::kFloat));
  adamw_(state, at::zeros({0}, at::kFloat), usual_step(1), {});
  CHECK(state.weights.numel() == 0);
}

}  // namespace llmtrain::kernels
