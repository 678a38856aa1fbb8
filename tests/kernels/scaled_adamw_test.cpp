// SPDX-License-Identifier: Apache-2.0
// AdamW over E4M3 and fp16 states with scales: the step in fp32, between LibTorch's casts.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

#include "core/base/error.h"
#include "kernels/adamw.h"
#include "kernels/vector/adamw.h"
#include "tests/kernels/fp8/scaled_step.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

constexpr auto e4m3 = at::kFloat8_e4m3fn;

// Magnitudes from the largest payload to 0, of either sign where there is one.
at::Tensor random_values(std::int64_t n, double largest) {
  const at::Tensor sizes = at::exp2(at::randint(-40, 1, {n}).to(at::kFloat)) * largest;
  return (at::rand({n}) * 2 - 1) * sizes;
}

at::Tensor number(float value) { return at::full({1}, value, at::kFloat); }
// One number each for weights and both moments.
at::Tensor three(float weights, float m, float v) { return at::tensor({weights, m, v}, at::kFloat); }

ScaledAdamwState random_state(std::int64_t n) {
  return {{random_values(n, 60000).to(at::kHalf), number(0x1p12F)},
          {random_values(n, 448).to(e4m3), number(0x1p9F)},
          {random_values(n, 32000).abs().to(at::kHalf), number(0x1p20F)},
          {random_values(n, 448).to(e4m3), number(0x1p7F)}};
}

ScaledAdamwState copy_of(const ScaledAdamwState& state) {
  ScaledAdamwState copy = state;
  for (auto* array : {&copy.weights, &copy.m, &copy.v}) array->payload = array->payload.clone();
  return copy;
}

at::Tensor widened(const ScaledAdamwState::Array& array) { return array.payload.to(at::kFloat) / array.scale; }

AdamwStep step() { return {.learning_rate = 1e-2, .weight_decay = 0.1, .gradient_scale = 0.37, .step = 3}; }

// adamw_test.cpp holds this step to PyTorch's.
AdamwState fp32_step(const ScaledAdamwState& state) {
  AdamwState wide{widened(state.weights), widened(state.m), widened(state.v)};
  adamw_(wide, widened(state.gradients), step(), {});
  return wide;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto bits = a.scalar_type() == e4m3 ? at::kByte : at::kShort;
  return at::equal(a.view(bits), b.view(bits));
}

bool same_bits(const ScaledAdamwState& a, const ScaledAdamwState& b) {
  return same_bits(a.weights.payload, b.weights.payload) && same_bits(a.m.payload, b.m.payload) &&
         same_bits(a.v.payload, b.v.payload);
}

double largest_of(const at::Tensor& x) { return x.abs().max().item<double>(); }

}  // namespace

TEST_CASE("scaled states take the fp32 step and are rounded as LibTorch casts") {
  const std::int64_t n = GENERATE(1, 31, 40001);
  const bool has_wide_gradients = GENERATE(false, true);
  ScaledAdamwState start = random_state(n);
  // Such as E4M3 does not have.
  if (has_wide_gradients) start.gradients = {widened(start.gradients) * 1.01, number(1)};
  const ScaledAdamwState after = copy_of(start);
  const AdamwState wide = fp32_step(start);
  // The first moment beyond E4M3's range, so that it saturates where it is large.
  const at::Tensor next = three(0x1p11F, 0x1p12F, 0x1p18F);
  scaled_adamw_(after, step(), next);
  CHECK(same_bits(after.weights.payload, (wide.weights * next[0]).to(at::kHalf)));
  CHECK(same_bits(after.m.payload, (wide.m * next[1]).clamp(-448, 448).to(e4m3)));
  const at::Tensor v = wide.v * next[2];
  CHECK(same_bits(after.v.payload, v.clamp_min(0x1p-24).mul(v.gt(0)).to(at::kHalf)));
}

// As a step of fp32 weights between casts of these alone.
TEST_CASE("fp16 weights take the fp32 step beside fp32 moments") {
  const std::int64_t n = GENERATE(1, 31, 40001);
  const bool has_wide_gradients = GENERATE(false, true);
  ScaledAdamwState state = random_state(n);
  state.m = {widened(state.m), number(1)};
  state.v = {widened(state.v), number(1)};
  if (has_wide_gradients) state.gradients = {widened(state.gradients) * 1.01, number(1)};
  AdamwState wide{widened(state.weights), state.m.payload.clone(), state.v.payload.clone()};
  adamw_(wide, widened(state.gradients), step(), {});
  CHECK(scaled_adamw_largest(state, step())[2].item<float>() == largest_of(wide.v));
  scaled_adamw_(state, step(), three(0x1p11F, 1, 1));
  CHECK(same_bits(state.weights.payload, (wide.weights * 0x1p11F).to(at::kHalf)));
  CHECK(at::equal(state.m.payload, wide.m));
  CHECK(at::equal(state.v.payload, wide.v));
}

TEST_CASE("a second moment stays above 0 while there is one, and 0 without") {
  ScaledAdamwState state = random_state(3);
  for (auto* array : {&state.m, &state.gradients}) array->payload.zero_();
  state.v.payload = at::tensor({1.0, 0.0, 0x1p-24}).to(at::kHalf);
  scaled_adamw_(state, step(), three(1, 1, 1));
  CHECK(at::equal(state.v.payload.gt(0), at::tensor({1, 0, 1}).gt(0)));
}

TEST_CASE("the largest magnitudes are those of the values after the step") {
  const std::int64_t n = GENERATE(1, 77, 50000);
  const ScaledAdamwState state = random_state(n), before = copy_of(state);
  const AdamwState wide = fp32_step(state);
  const at::Tensor largest = scaled_adamw_largest(state, step());
  CHECK(largest[0].item<float>() == largest_of(wide.weights));
  CHECK(largest[1].item<float>() == largest_of(wide.m));
  CHECK(largest[2].item<float>() == largest_of(wide.v));
  CHECK(same_bits(state, before));
}

TEST_CASE("what is not a number is the largest, wherever it is") {
  ScaledAdamwState state = random_state(40000);
  state.gradients.payload[std::int64_t{GENERATE(0, 20000, 39999)}] = std::numeric_limits<float>::quiet_NaN();
  CHECK(scaled_adamw_largest(state, step()).isnan().all().item<bool>());
}

TEST_CASE("every instruction-set level takes the same scaled step, on any number of threads") {
  const std::int64_t n = 50000;
  const ScaledAdamwState start = random_state(n);
  const auto stepped = [&] {
    ScaledAdamwState state = copy_of(start);
    scaled_adamw_(state, step(), three(0x1p11F, 0x1p8F, 0x1p18F));
    return state;
  };
  const ScaledAdamwState one = with_threads(1, stepped);
  CHECK(same_bits(one, with_threads(3, stepped)));
  // With another learning rate and decay than above: constants of which the levels' loops make the same numbers.
  const vector::ScaledAdamwConstants constants{{0.5F, 0.999F, 0.1F, 0.95F, 0.05F, 0.3F, 1e-8F, 0.01F}, 1, 1, 1, 1};
  const at::Tensor m = start.m.payload.to(at::kDouble) * 0.9 + start.gradients.payload.to(at::kDouble) * 0.05;
  at_every_level([&]<int level> {
    const ScaledAdamwState state = copy_of(start);
    const vector::ScaledAdamwArrays<std::uint8_t, vector::SmallMoments> arrays{
        static_cast<std::uint16_t*>(state.weights.payload.data_ptr()),
        static_cast<std::uint8_t*>(state.m.payload.data_ptr()), static_cast<std::uint16_t*>(state.v.payload.data_ptr()),
        static_cast<const std::uint8_t*>(state.gradients.payload.data_ptr())};
    const auto loops = vector::adamw_kernels_for<level>().small_moments.e4m3;
    const auto largest = loops.largest(arrays, constants, 0, n);
    CHECK(__builtin_bit_cast(float, largest.m) == Approx(largest_of(m)).epsilon(1e-6));
    loops.step(arrays, constants, {1, 1, 1}, 0, n);
    // Half a unit of E4M3's last digit, and of its least number, 2⁻⁹.
    const at::Tensor error = (state.m.payload.to(at::kDouble) - m).abs();
    CHECK((error <= m.abs() * 0x1p-4 * 1.001 + 0x1p-10).all().item<bool>());
    CHECK(largest_of(state.weights.payload.to(at::kDouble) - start.weights.payload.to(at::kDouble)) > 1);
  });
}

TEST_CASE("payloads of another type or size are refused by name") {
  ScaledAdamwState state = random_state(4);
  state.v.payload = state.v.payload.to(at::kBFloat16);
  CHECK_THROWS_WITH(scaled_adamw_(state, step(), three(1, 1, 1)), Catch::Contains("scaled v"));
  state = random_state(4);
  state.m.payload = at::zeros({5}).to(e4m3);
  CHECK_THROWS_WITH(scaled_adamw_largest(state, step()), Catch::Contains("m has 5"));
}

}  // namespace llmtrain::kernels
