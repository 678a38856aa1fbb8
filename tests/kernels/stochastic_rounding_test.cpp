// SPDX-License-Identifier: Apache-2.0
// Rounding at random against float64: only neighbours of a number, the number itself on average, and the same bits
// however a tensor is cut.
#include "kernels/random/stochastic_rounding.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/vector/adamw.h"
#include "tests/kernels/fp8/scaled_step.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

constexpr auto e4m3_type = at::kFloat8_e4m3fn;

at::Tensor one_number(float value) { return at::full({1}, value, at::kFloat); }

ScaledAdamwState random_states(std::int64_t n, bool has_small_moments) {
  const auto values = [n](double size) { return (at::rand({n}) * 2 - 1) * size; };
  ScaledAdamwState state{{values(3000).to(at::kHalf), one_number(0x1p12F)},
                         {values(400).to(e4m3_type), one_number(0x1p9F)},
                         {values(30000).abs().to(at::kHalf), one_number(0x1p20F)},
                         {values(400).to(e4m3_type), one_number(0x1p7F)}};
  if (!has_small_moments) {
    state.m = {values(1), one_number(1)};
    state.v = {values(0.01).abs(), one_number(1)};
  }
  return state;
}

ScaledAdamwState cloned(const ScaledAdamwState& state) {
  ScaledAdamwState copy = state;
  for (auto* array : {&copy.weights, &copy.m, &copy.v}) array->payload = array->payload.clone();
  return copy;
}

// Elements [begin, end).
ScaledAdamwState sliced(const ScaledAdamwState& state, std::int64_t begin, std::int64_t end) {
  ScaledAdamwState part = state;
  for (auto* array : {&part.weights, &part.m, &part.v, &part.gradients})
    array->payload = array->payload.slice(0, begin, end);
  return part;
}

AdamwStep one_step() { return {.learning_rate = 1e-2, .weight_decay = 0.1, .gradient_scale = 0.37, .step = 3}; }
at::Tensor next_scales() { return at::tensor({0x1p11F, 0x1p8F, 0x1p18F}, at::kFloat); }

bool are_same(const ScaledAdamwState& a, const ScaledAdamwState& b) {
  const auto bits = [](const at::Tensor& x) { return x.view(at::kByte); };
  return at::equal(bits(a.weights.payload), bits(b.weights.payload)) &&
         at::equal(bits(a.m.payload), bits(b.m.payload)) && at::equal(bits(a.v.payload), bits(b.v.payload));
}

// The number of the format with this many digits below x, by magnitude, and the distance to the next, by float64.
double below(double x, int mantissa, int least) {
  const int exponent = std::max(std::ilogb(x), least);
  const double place = std::ldexp(1.0, exponent - mantissa);
  return std::trunc(x / place) * place;
}

template <class Format>
void check_mean(double x, int mantissa, int least, int bits) {
  INFO(x);
  const double low = below(x, mantissa, least), place = std::ldexp(1.0, std::max(std::ilogb(x), least) - mantissa);
  const std::int64_t count = std::int64_t{1} << bits;
  double sum = 0;
  std::int64_t strange = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const float threshold = std::ldexp(static_cast<float>(k), -bits);
    const double got = rounded_at_random<Format>(static_cast<float>(x), threshold);
    strange += got != low && got != low + std::copysign(place, x);
    sum += got;
  }
  CHECK(strange == 0);
  CHECK(sum / static_cast<double>(count) == x);
}

}  // namespace

TEST_CASE("a number is rounded to a neighbour, and all thresholds together to itself") {
  for (const double x : {1.0, 1.0 + 0x1p-13, -1.9999, 0.1, 3.14159, -2047.3, 0x1p-14 * 1.7, 65503.9, 0.0})
    check_mean<Fp16Format>(static_cast<float>(x), 10, -14, 16);
  // Numbers below the least normal one have more bits than a threshold, but these.
  for (const double x : {0x1p-24 * 1.5, -0x1p-20 * 1.625, 0x1p-25}) check_mean<Fp16Format>(x, 10, -14, 16);
  for (const double x : {1.0, 1.0 + 0x1p-11, -1.9375, 0.1015625, 447.5, 0x1p-9 * 0.75, 0x1p-6 * 1.0625})
    check_mean<E4m3Format>(x, 3, -6, 12);
}

TEST_CASE("what is not finite stays as it is where numbers are rounded at random") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float threshold : {0.0F, 0.5F}) {
    CHECK(rounded_at_random<Fp16Format>(-infinity, threshold) == -infinity);
    CHECK(std::isnan(rounded_at_random<E4m3Format>(std::nanf(""), threshold)));
    CHECK(std::signbit(rounded_at_random<Fp16Format>(-0.0F, threshold)));
  }
}

TEST_CASE("the mean of steps that are rounded at random is the step in float64") {
  at::manual_seed(11);
  constexpr std::int64_t n = 2048, trials = 1000;
  const ScaledAdamwState start = random_states(n, true);
  // The step in fp32, whose rounding is far below that of small types.
  const auto wide = [](const ScaledAdamwState::Array& array) { return array.payload.to(at::kFloat) / array.scale; };
  AdamwState exact{wide(start.weights), wide(start.m), wide(start.v)};
  adamw_(exact, wide(start.gradients), one_step(), {});
  at::Tensor weights = at::zeros({n}, at::kDouble), m = weights.clone(), v = weights.clone();
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    const ScaledAdamwState state = cloned(start);
    scaled_adamw_(state, one_step(), next_scales(), StochasticRounding{.key = rounding_key(5, trial)});
    weights += state.weights.payload.to(at::kDouble);
    m += state.m.payload.to(at::kDouble);
    v += state.v.payload.to(at::kDouble);
  }
  // In last places, whose squares have a mean of at most 1/4: of an element's mean beyond 5 of its deviations, and of
  // the mean over all elements beyond 5 of that one's.
  const auto check = [&](const at::Tensor& sum, const at::Tensor& value, double scale, int mantissa, int least) {
    const at::Tensor want = value.to(at::kDouble) * scale;
    const at::Tensor place = at::exp2(want.abs().log2().floor().clamp_min(least) - mantissa);
    const at::Tensor error = (sum / trials - want) / place;
    const double deviation = 0.5 / std::sqrt(double{trials});
    CHECK(error.abs().max().item<double>() < 5 * deviation);
    CHECK(std::abs(error.mean().item<double>()) < 5 * deviation / std::sqrt(double{n}));
    // Rounded to nearest they would be off by a quarter of a place.
    CHECK(error.abs().mean().item<double>() < deviation);
  };
  check(weights, exact.weights, 0x1p11, 10, -14);
  check(m, exact.m, 0x1p8, 3, -6);
  check(v, exact.v, 0x1p18, 10, -14);
}

TEST_CASE("weights round at random beside fp32 moments, which stay as they are without") {
  at::manual_seed(12);
  const ScaledAdamwState start = random_states(1001, false), nearest = cloned(start), random = cloned(start);
  const at::Tensor next = at::tensor({0x1p11F, 1.0F, 1.0F});
  scaled_adamw_(nearest, one_step(), next);
  scaled_adamw_(random, one_step(), next, StochasticRounding{.key = 3});
  CHECK(at::equal(random.m.payload, nearest.m.payload));
  CHECK(at::equal(random.v.payload, nearest.v.payload));
  const double moved = random.weights.payload.ne(nearest.weights.payload).to(at::kDouble).mean().item<double>();
  CHECK(moved == Approx(0.25).margin(0.07));
}

TEST_CASE("a second moment that is rounded at random stays above 0") {
  ScaledAdamwState state = random_states(1000, true);
  for (auto* array : {&state.m, &state.gradients}) array->payload.zero_();
  state.v.payload = at::full({1000}, 0x1p-24).to(at::kHalf);
  scaled_adamw_(state, one_step(), at::ones({3}), StochasticRounding{.key = 3});
  CHECK(state.v.payload.gt(0).all().item<bool>());
}

TEST_CASE("however a tensor is cut, on any number of threads and at every level, it is rounded to the same bits") {
  at::manual_seed(13);
  constexpr std::int64_t rows = 60, columns = 701, n = rows * columns;
  const ScaledAdamwState start = random_states(n, true), whole = cloned(start);
  const StochasticRounding of{.key = 77};
  with_threads(1, [&] { return scaled_adamw_(whole, one_step(), next_scales(), of), 0; });
  const ScaledAdamwState threads = cloned(start);
  with_threads(3, [&] { return scaled_adamw_(threads, one_step(), next_scales(), of), 0; });
  CHECK(are_same(threads, whole));
  // As ZeRO cuts it.
  const ScaledAdamwState pieces = cloned(start);
  const std::vector<std::int64_t> cuts{0, 1, 4, 1003, 20000, n};
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    StochasticRounding part = of;
    part.skipped = cuts[i];
    scaled_adamw_(sliced(pieces, cuts[i], cuts[i + 1]), one_step(), next_scales(), part);
  }
  CHECK(are_same(pieces, whole));
  // Some columns of each row, as tensor ranks have them, and of these what ZeRO leaves.
  for (const auto& [first, count] : {std::pair{0L, 1L}, {1L, 300L}, {301L, 400L}}) {
    const auto block = [&, first = first, count = count](const ScaledAdamwState& state) {
      ScaledAdamwState part = state;
      for (auto* array : {&part.weights, &part.m, &part.v, &part.gradients})
        array->payload = array->payload.view({rows, columns}).slice(1, first, first + count).flatten().clone();
      return part;
    };
    const ScaledAdamwState got = block(start), want = block(whole);
    const StochasticRounding part{.key = 77, .first = first, .run = count, .stride = columns, .skipped = 17};
    scaled_adamw_(sliced(got, 17, rows * count), one_step(), next_scales(), part);
    CHECK(are_same(sliced(got, 17, rows * count), sliced(want, 17, rows * count)));
  }
}

TEST_CASE("every instruction-set level rounds at random alike") {
  at::manual_seed(14);
  const std::int64_t n = 1003;
  const ScaledAdamwState start = random_states(n, true);
  // Without products that another level would round once less: powers of two, and no second moment.
  const vector::ScaledAdamwConstants constants{
      {1, 1, 0.5F, 1, 0.5F, 1, 1, 0x1p-6F}, 0x1p-12F, 0x1p-9F, 0x1p-20F, 0x1p-7F};
  std::vector<ScaledAdamwState> states;
  at_every_level([&]<int level> {
    const ScaledAdamwState state = cloned(start);
    const vector::ScaledAdamwArrays<std::uint8_t, vector::SmallMoments> arrays{
        static_cast<std::uint16_t*>(state.weights.payload.data_ptr()),
        static_cast<std::uint8_t*>(state.m.payload.data_ptr()), static_cast<std::uint16_t*>(state.v.payload.data_ptr()),
        static_cast<const std::uint8_t*>(state.gradients.payload.data_ptr())};
    const auto loops = vector::adamw_kernels_for<level>().small_moments.e4m3;
    loops.random_step(arrays, constants, {0x1p11F, 0x1p8F, 0x1p18F}, {.key = 9, .first = 5}, 0, n);
    states.push_back(state);
  });
  for (const ScaledAdamwState& state : states)
    CHECK(at::equal(state.m.payload.view(at::kByte), states.front().m.payload.view(at::kByte)));
}

TEST_CASE("other tensors, steps and elements have other random numbers") {
  CHECK(rounding_key(1, 1) != rounding_key(2, 1));
  CHECK(rounding_key(1, 1) != rounding_key(1, 2));
  const RunPart part = run_part({.first = 10, .run = 4, .stride = 100, .skipped = 3}, 2, 50);
  CHECK(part.index == 111);
  CHECK(part.left == 3);
}

}  // namespace llmtrain::kernels
