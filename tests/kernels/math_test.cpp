// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/math.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace llmtrain::kernels::vector {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// |got − want| in units in the last place of want.
double units_off(float got, double want) {
  const float magnitude = std::fabs(static_cast<float>(want));
  return std::fabs(got - want) / (std::nextafter(magnitude, infinity) - magnitude);
}

template <class Function, class Exact>
double most_units_off(Function function, Exact exact, double first, double last, double step) {
  double most = 0;
  for (double x = first; x < last; x += step) {
    const auto rounded = static_cast<float>(x);
    most = std::max(most, units_off(function(rounded), exact(static_cast<double>(rounded))));
  }
  return most;
}

std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }

TEST_CASE("the exponential is within two units in the last place, including subnormal results") {
  const auto exact = [](double x) { return std::exp(x); };
  CHECK(most_units_off([](float x) { return exponential(x); }, exact, -103.0, 88.7, 1e-4) < 2);
  CHECK(most_units_off([](float x) { return bounded_exponential(x); }, exact, -87.0, 87.0, 1e-4) < 2);
}

TEST_CASE("the exponential at the ends of its range") {
  CHECK(exponential(0.0F) == 1.0F);
  CHECK(exponential(infinity) == infinity);
  CHECK(exponential(1000.0F) == infinity);
  CHECK(exponential(-infinity) == 0.0F);
  CHECK(exponential(-1000.0F) == 0.0F);
  CHECK(std::isnan(exponential(not_a_number)));
}

TEST_CASE("the logarithm is within two units in the last place") {
  const auto exact = [](double x) { return std::log(x); };
  const auto function = [](float x) { return logarithm(x); };
  CHECK(most_units_off(function, exact, 0.5, 2.0, 1e-5) < 2);
  CHECK(most_units_off(function, exact, 2.0, 1e5, 0.37) < 2);
  CHECK(units_off(logarithm(1.2e-38F), std::log(static_cast<double>(1.2e-38F))) < 2);
  CHECK(units_off(logarithm(3e38F), std::log(static_cast<double>(3e38F))) < 2);
  CHECK(logarithm(1.0F) == 0.0F);
}

TEST_CASE("the logistic function and its complement keep their relative accuracy on both sides") {
  const auto value = [](float x) { return logistic(x).value; };
  const auto complement = [](float x) { return logistic(x).complement; };
  CHECK(most_units_off(
            value, [](double x) { return 1 / (1 + std::exp(-x)); }, -87.0, 87.0, 1e-3) < 4);
  CHECK(most_units_off(
            complement, [](double x) { return 1 / (1 + std::exp(x)); }, -87.0, 87.0, 1e-3) < 4);
  CHECK(logistic(infinity).value == 1.0F);
  CHECK(logistic(-infinity).value < 2e-38F);
  CHECK(logistic(-infinity).complement == 1.0F);
}

TEST_CASE("bf16 rounds to nearest, ties to even") {
  CHECK(to_bf16(1.0F) == 0x3F80);
  CHECK(to_bf16(-2.5F) == 0xC020);
  CHECK(to_bf16(__builtin_bit_cast(float, 0x3F808000U)) == 0x3F80);
  CHECK(to_bf16(__builtin_bit_cast(float, 0x3F818000U)) == 0x3F82);
  CHECK(to_bf16(__builtin_bit_cast(float, 0x3F808001U)) == 0x3F81);
  CHECK(to_bf16(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(to_bf16(infinity) == 0x7F80);
  CHECK(to_bf16(-0.0F) == 0x8000);
  CHECK(std::isnan(to_float(to_bf16(not_a_number))));
  CHECK(std::isnan(to_float(to_bf16(__builtin_bit_cast(float, 0x7F800001U)))));
}

TEST_CASE("every bf16 number is unchanged by conversion to fp32 and back") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(wide)) continue;
    REQUIRE(bits_of(wide) == bits << 16);
    REQUIRE(to_bf16(wide) == bits);
  }
}

}  // namespace
}  // namespace llmtrain::kernels::vector
