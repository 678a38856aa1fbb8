// SPDX-License-Identifier: Apache-2.0
// The kernels of FP8 over many tensors at once, run on the processor, as blocks of a GPU that meet in one tensor's
// numbers: the thread sanitizer sees whether they race for them.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/fp8/fp8_kernels.h"
#include "kernels/cuda/fp8/scaled_adamw_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

using test::ExactArray;

// Parts of several portions, from any address.
const std::vector<FlatPart> parts{{1, 50001, 0}, {50001, 50100, 2}, {50100, 82868, 1}};
constexpr std::size_t elements = 82868;

FlatParts all_parts() { return {parts.data(), std::ssize(parts)}; }

std::size_t places() {
  std::int64_t portions = 0;
  for (const FlatPart& part : parts) portions += fp8_portions(part);
  return static_cast<std::size_t>(portions);
}

// All but NaN.
void fill(const ExactArray<std::uint8_t>& codes) {
  std::mt19937 engine(5);
  std::uniform_int_distribution<int> code(0, 0x7e);
  for (std::size_t i = 0; i < elements; ++i) codes.data()[i] = static_cast<std::uint8_t>(code(engine));
}

// In units of 2⁻⁹.
std::int64_t units_of(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  return exponent == 0 ? mantissa : std::int64_t{8 + mantissa} << (exponent - 1);
}

}  // namespace

TEST_CASE("Blocks of a GPU find the largest of many tensors in every order") {
  const ThreadOrder order(GENERATE(thread_orders()));
  const Numbers<float> x(elements);
  std::mt19937 engine(7);
  x.fill(engine);
  const ExactArray<float> largest(3);
  for (std::size_t k = 0; k < 3; ++k) largest.data()[k] = 0;
  largest_of_fp8_parts({.of = all_parts(), .element = KernelElement::fp32, .x = x.data(), .largest = largest.data()},
                       nullptr);
  for (const auto& [begin, end, number] : parts) {
    float want = 0;
    for (std::int64_t i = begin; i < end; ++i) want = std::max(want, std::abs(x.data()[i]));
    CHECK(largest.data()[number] == want);
  }
  CHECK_FALSE((x.has_overrun() || largest.has_overrun()));
}

TEST_CASE("A block of a GPU that goes on with another tensor begins its search anew") {
  // As many portions as blocks at the most, so that the first block has the second tensor, too.
  constexpr std::int64_t first = 2048 * fp8_portion_elements;
  const std::vector<FlatPart> two{{0, first, 0}, {first, first + 5, 1}};
  const ExactArray<__half> x(static_cast<std::size_t>(first) + 5);
  std::fill_n(x.data(), first + 5, __half{});
  x.data()[1] = __float2half(-3);
  x.data()[first + 4] = __float2half(2);
  const ExactArray<float> largest(2);
  largest.data()[0] = largest.data()[1] = 0;
  largest_of_fp8_parts(
      {.of = {two.data(), std::ssize(two)}, .element = KernelElement::fp16, .x = x.data(), .largest = largest.data()},
      nullptr);
  CHECK(largest.data()[0] == 3);
  CHECK(largest.data()[1] == 2);
}

TEST_CASE("Blocks of a GPU count and square many tensors exactly in every order") {
  const ThreadOrder order(GENERATE(thread_orders()));
  const ExactArray<std::uint8_t> codes(elements);
  fill(codes);
  const ExactArray<std::int64_t> counts(3);
  const ExactArray<float> scales(3);
  const ExactArray<double> partials(places()), sum(1);
  for (std::size_t k = 0; k < 3; ++k) {
    counts.data()[k] = 10;
    scales.data()[k] = std::ldexp(1.0F, static_cast<int>(k) - 1);
  }
  count_saturated_fp8_parts({.of = all_parts(), .payload = codes.data(), .counts = counts.data()}, nullptr);
  squares_of_fp8_parts({.of = all_parts(),
                        .payload = codes.data(),
                        .scales = scales.data(),
                        .partials = partials.data(),
                        .sum = sum.data()},
                       nullptr);
  double want = 0;
  for (const auto& [begin, end, number] : parts) {
    std::int64_t count = 10, squares = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t units = units_of(codes.data()[i]);
      count += codes.data()[i] == 0x7e ? 1 : 0;
      squares += units * units;
    }
    CHECK(counts.data()[number] == count);
    want += std::ldexp(static_cast<double>(squares), -18 - 2 * (static_cast<int>(number) - 1));
  }
  CHECK(*sum.data() == want);
  CHECK_FALSE((codes.has_overrun() || counts.has_overrun() || partials.has_overrun() || sum.has_overrun()));
}

TEST_CASE("Blocks of a GPU find the largest of what a scaled step leaves in every order") {
  const ThreadOrder order(GENERATE(thread_orders()));
  constexpr std::size_t n = 20000;
  const Numbers<__half> weights(n);
  const Numbers<float> m(n), v(n), gradients(n);
  const ExactArray<float> one(1), numbers(3);
  std::mt19937 engine(3);
  weights.fill(engine);
  for (std::size_t i = 0; i < n; ++i) m.data()[i] = v.data()[i] = gradients.data()[i] = 0;
  gradients.data()[n - 2] = 2;
  *one.data() = 1;
  for (std::size_t k = 0; k < 3; ++k) numbers.data()[k] = 0;
  const ScaledAdamwOperands tensor{.weights = {weights.data(), one.data()},
                                   .m = {m.data(), one.data()},
                                   .v = {v.data(), one.data()},
                                   .gradients = {gradients.data(), one.data()},
                                   .has_wide_gradients = true,
                                   .n = n,
                                   .numbers = numbers.data()};
  const AdamwConstants halves{.gradient_scale = 1,
                              .decay = 1,
                              .one_minus_beta1 = 0.5F,
                              .beta2 = 0.5F,
                              .one_minus_beta2 = 0.5F,
                              .root_of_correction = 1,
                              .eps = 1,
                              .step_size = 0};
  cuda_scaled_adamw_kernels.largest({&tensor, 1, halves}, nullptr);
  float want = 0;
  for (std::size_t i = 0; i < n; ++i) want = std::max(want, std::abs(widened(weights.data()[i])));
  CHECK(numbers.data()[0] == want);
  CHECK(numbers.data()[1] == 1);
  CHECK(numbers.data()[2] == 2);
}

}  // namespace llmtrain::kernels
