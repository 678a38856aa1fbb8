// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8/fp8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logspace.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/nextafter.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/gemm.h"
#include "kernels/vector/fp8.h"
#include "tests/kernels/thread_count.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

double largest_number(Fp8Format format) { return format == Fp8Format::e4m3 ? 448 : 57344; }

at::Tensor one_number(double value) { return at::full({1}, value, at::kFloat); }

// Every pattern of a 16-bit type, NaN, infinities and subnormal numbers among them.
at::Tensor all_patterns(at::ScalarType type) { return at::arange(65536, at::kInt).to(at::kShort).view(type); }

// Where the rounding changes: all numbers of the format, the midpoints between neighbours, and fp32's neighbours of
// these, beyond the largest too.
at::Tensor critical_numbers(Fp8Format format) {
  const at::Tensor codes = at::arange(128, at::kInt).to(at::kByte).view(fp8_type(format)).to(at::kFloat);
  const at::Tensor finite = codes.masked_select(codes.isfinite());
  const at::Tensor next = at::cat({finite.narrow(0, 1, finite.numel() - 1), one_number(1.25 * largest_number(format))});
  const at::Tensor points = at::cat({finite, (finite + next) / 2, next});
  const at::Tensor up = at::full_like(points, infinity), down = at::full_like(points, -infinity);
  const at::Tensor positive = at::cat({points, at::nextafter(points, up), at::nextafter(points, down)});
  return at::cat({positive, -positive, at::tensor({not_a_number, -not_a_number, HUGE_VALF, -HUGE_VALF, 1e-45F})});
}

// PyTorch's conversion of the saturated number.
at::Tensor expected_payload(const at::Tensor& x, Fp8Format format) {
  return x.to(at::kFloat).clamp(-largest_number(format), largest_number(format)).to(fp8_type(format));
}

// NaN has several patterns, of which any will do.
void check_same_payload(const at::Tensor& got, const at::Tensor& expected) {
  REQUIRE(got.scalar_type() == expected.scalar_type());
  const at::Tensor is_nan = expected.to(at::kFloat).isnan();
  CHECK(at::equal(got.to(at::kFloat).isnan(), is_nan));
  const at::Tensor got_bytes = got.view(at::kByte), expected_bytes = expected.view(at::kByte);
  CHECK(at::equal(got_bytes.masked_fill(is_nan, 0), expected_bytes.masked_fill(is_nan, 0)));
}

// With the loops of one instruction-set level; checks what they say of the largest magnitude, too.
template <int level, class Element>
at::Tensor cast_at_level(const at::Tensor& x, float scale, Fp8Format format) {
  const auto kernels = vector::fp8_kernels_for<level, Element>();
  const auto casts = format == Fp8Format::e4m3 ? kernels.e4m3 : kernels.e5m2;
  const auto* values = static_cast<const Element*>(x.const_data_ptr());
  at::Tensor payload = at::zeros_like(x, x.options().dtype(fp8_type(format))), rounded = x.clone();
  const std::uint32_t largest = casts.cast(values, scale, static_cast<std::uint8_t*>(payload.data_ptr()), x.numel());
  auto* in_place = static_cast<Element*>(rounded.mutable_data_ptr());
  CHECK(casts.round(in_place, scale, 1 / scale, in_place, x.numel()) == largest);
  CHECK(kernels.largest(values, x.numel()) == largest);
  const at::Tensor is_number = payload.to(at::kFloat).isnan().logical_not();
  CHECK(at::equal(rounded.masked_select(is_number).to(at::kDouble),
                  (payload.to(at::kDouble) / scale).to(x.scalar_type()).masked_select(is_number).to(at::kDouble)));
  CHECK(at::equal(rounded.isnan(), is_number.logical_not()));
  return payload;
}

TEST_CASE("a cast to FP8 is PyTorch's of the saturated number, for every pattern and every midpoint") {
  const auto format = GENERATE(Fp8Format::e4m3, Fp8Format::e5m2);
  const at::Tensor x = critical_numbers(format), bf16 = all_patterns(at::kBFloat16), fp16 = all_patterns(at::kHalf);
  const at::Tensor one = one_number(1);
  check_same_payload(cast_to_fp8(x, one, format), expected_payload(x, format));
  check_same_payload(cast_to_fp8(bf16, one, format), expected_payload(bf16, format));
  check_same_payload(cast_to_fp8(fp16, one, format), expected_payload(fp16, format));
  at_every_level([&]<int level> {
    check_same_payload(cast_at_level<level, float>(x, 1, format), expected_payload(x, format));
    check_same_payload(cast_at_level<level, std::uint16_t>(bf16, 1, format), expected_payload(bf16, format));
    check_same_payload(cast_at_level<level, vector::Half>(fp16, 1, format), expected_payload(fp16, format));
    const auto scaled = [](const at::Tensor& values) { return values.to(at::kFloat) * 0.25; };
    check_same_payload(cast_at_level<level, float>(x, 0.25, format), expected_payload(scaled(x), format));
    check_same_payload(cast_at_level<level, vector::Half>(fp16, 0.25, format), expected_payload(scaled(fp16), format));
  });
}

TEST_CASE("a scale multiplies before the cast and divides after it, exactly") {
  const auto format = GENERATE(Fp8Format::e4m3, Fp8Format::e5m2);
  const double scale = GENERATE(0.125, 1, 1024);
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const at::Tensor x = at::randn({1000}).to(type), factor = one_number(scale);
  const at::Tensor payload = cast_to_fp8(x, factor, format);
  check_same_payload(payload, expected_payload(x.to(at::kFloat) * scale, format));
  const at::Tensor wide = widen_fp8(payload, factor, type);
  CHECK(wide.scalar_type() == type);
  CHECK(at::equal(wide.to(at::kDouble), payload.to(at::kDouble) / scale));
  CHECK(at::equal(round_to_fp8(x, factor, format), wide));
  const at::Tensor in_place = x.clone();
  round_to_fp8_(in_place, factor, format);
  CHECK(at::equal(in_place, wide));
}

TEST_CASE("every FP8 number is widened exactly, and comes back") {
  const auto format = GENERATE(Fp8Format::e4m3, Fp8Format::e5m2);
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor codes = at::arange(256, at::kInt).to(at::kByte).view(fp8_type(format));
  const at::Tensor wide = widen_fp8(codes, one_number(1), type), expected = codes.to(at::kFloat);
  CHECK(at::equal(wide.to(at::kFloat).nan_to_num(-1), expected.nan_to_num(-1)));
  const at::Tensor is_finite = expected.isfinite();
  const at::Tensor again = cast_to_fp8(wide, one_number(1), format);
  CHECK(at::equal(again.view(at::kByte).masked_select(is_finite), codes.view(at::kByte).masked_select(is_finite)));
}

TEST_CASE("the largest magnitude is exact, and NaN wins") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble);
  const std::int64_t n = GENERATE(1, 100, 16385, 100003);
  at::Tensor x = at::randn({n}).to(type);
  CHECK(at::equal(largest_magnitude(x), x.abs().amax().to(at::kFloat).view({1})));
  x[n / 2] = -infinity;
  CHECK(std::isinf(largest_magnitude(x).item<float>()));
  x[n - 1] = not_a_number;
  CHECK(std::isnan(largest_magnitude(x).item<float>()));
  CHECK(largest_magnitude(x.narrow(0, 0, 0)).item<float>() == 0);
}

TEST_CASE("a cast finds the largest magnitude in the same pass, and rows have scales of their own") {
  const auto format = GENERATE(Fp8Format::e4m3, Fp8Format::e5m2);
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble);
  const at::Tensor x = (at::randn({37, 1001}) * at::logspace(-2, 2, 37, 2).view({37, 1})).to(type);
  const at::Tensor one = one_number(4);
  const MeasuredFp8 cast = cast_and_measure(x, one, format), rounded = round_and_measure(x, one, format);
  check_same_payload(cast.values, cast_to_fp8(x, one, format));
  CHECK(at::equal(rounded.values, round_to_fp8(x, one, format)));
  for (const at::Tensor& largest : {cast.largest, rounded.largest, round_and_measure_(x.clone(), one, format)})
    CHECK(at::equal(largest, largest_magnitude(x)));
  const at::Tensor rows = largest_row_magnitudes(x), scales = fp8_scale(rows, format);
  const at::Tensor payload = cast_to_fp8(x, scales, format), wide = widen_fp8(payload, scales, type);
  CHECK(at::equal(round_to_fp8(x, scales, format), wide));
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    CHECK(at::equal(rows[i], largest_magnitude(x[i])));
    check_same_payload(payload[i], cast_to_fp8(x[i], scales[i], format));
    CHECK(at::equal(wide[i], widen_fp8(payload[i], scales[i], type)));
  }
}

TEST_CASE("a scale is the largest power of two with which the maximum fits") {
  const auto format = GENERATE(Fp8Format::e4m3, Fp8Format::e5m2);
  const double most = largest_number(format);
  const at::Tensor maxima = at::cat({at::randn({200}).abs(), critical_numbers(format).abs().clamp(1e-20, 1e20),
                                     at::tensor({1e-25F, 3e30F, 447.99997F, 448.00003F})});
  const at::Tensor finite = maxima.masked_select(maxima.isfinite());
  const at::Tensor scaled = fp8_scale(finite, format).to(at::kDouble) * finite.to(at::kDouble);
  CHECK(scaled.le(most).all().item<bool>());
  CHECK(scaled.gt(most / 2).all().item<bool>());
  const at::Tensor powers = fp8_scale(finite, format).log2();
  CHECK(at::equal(powers, powers.round()));
}

TEST_CASE("scales of what has no scale") {
  const auto format = GENERATE(Fp8Format::e4m3, Fp8Format::e5m2);
  const at::Tensor scales = fp8_scale(at::tensor({0.0F, HUGE_VALF, not_a_number, 1e-45F}), format);
  CHECK(scales[0].item<float>() == 1);
  CHECK(std::isnan(scales[1].item<float>()));
  CHECK(std::isnan(scales[2].item<float>()));
  CHECK(scales[3].item<float>() == std::ldexp(1.0F, 100));
  // An infinity shows in every value, as the products of the tensor then are no numbers.
  CHECK(round_to_fp8(at::randn({10}), scales.narrow(0, 1, 1), format).isnan().all().item<bool>());
}

TEST_CASE("casts do not depend on the number of threads") {
  const at::Tensor x = at::randn({100003}), scale = one_number(64);
  const auto cast = [&] { return cast_to_fp8(x, scale, Fp8Format::e4m3).view(at::kByte); };
  CHECK(at::equal(with_threads(1, cast), with_threads(3, cast)));
  const auto round = [&] { return round_to_fp8(x, scale, Fp8Format::e5m2); };
  CHECK(at::equal(with_threads(1, round), with_threads(3, round)));
}

// As many as a lane of a vector can count, and one more; parts of a vector, and nothing.
TEST_CASE("saturated payloads are counted, whatever their number") {
  const auto format = GENERATE(Fp8Format::e4m3, Fp8Format::e5m2);
  const auto count_of = [&](const at::Tensor& bytes) { return count_saturated(bytes.view(fp8_type(format))); };
  const at::Tensor largest = cast_to_fp8(at::tensor({HUGE_VALF, -HUGE_VALF}), one_number(1), format).view(at::kByte);
  for (const std::int64_t n : {0, 1, 63, 64, 255 * 64, 256 * 64, 70001})
    for (const std::int64_t sign : {0, 1}) CHECK(count_of(largest[sign].expand({n}).contiguous()) == n);
  const at::Tensor codes = at::arange(70001, at::kInt).to(at::kByte);
  const at::Tensor magnitudes = codes.view(fp8_type(format)).to(at::kFloat).abs();
  CHECK(count_of(codes) == magnitudes.eq(largest_number(format)).sum().item<std::int64_t>());
  const auto count = [&] { return count_of(codes); };
  CHECK(with_threads(1, count) == with_threads(3, count));
  at_every_level([&]<int level> {
    const auto kernels = vector::fp8_kernels_for<level, float>();
    const auto kernel = format == Fp8Format::e4m3 ? kernels.e4m3.count_largest : kernels.e5m2.count_largest;
    CHECK(kernel(codes.const_data_ptr<std::uint8_t>(), codes.numel()) == count_of(codes));
  });
}

// E4M3 has 3 bits after the point: errors are uniform within half a unit, whose power is 2^-6 ÷ 12 of the mantissa's
// square on average (8·log 2 … of a uniform exponent), about 31.5 dB; E5M2 has one bit less, 6 dB.
TEST_CASE("the noise of a cast is that of the format") {
  const at::Tensor x = at::randn({100000}), wide = x.to(at::kDouble);
  const auto signal_to_noise = [&](Fp8Format format) {
    const at::Tensor rounded = round_to_fp8(x, fp8_scale(largest_magnitude(x), format), format).to(at::kDouble);
    return 10 * std::log10((wide.square().sum() / (rounded - wide).square().sum()).item<double>());
  };
  CHECK(signal_to_noise(Fp8Format::e4m3) == Approx(31.5).margin(0.5));
  CHECK(signal_to_noise(Fp8Format::e5m2) == Approx(25.5).margin(0.5));
}

// A matrix in FP8: payload ÷ scale.
struct Fp8Matrix {
  at::Tensor payload, scale;

  at::Tensor values(at::ScalarType type) const { return widen_fp8(payload.contiguous(), scale, type); }
  Fp8Matrix transposed() const { return {payload.t(), scale}; }
};

Fp8Matrix random_fp8(std::int64_t rows, std::int64_t columns, Fp8Format format) {
  const at::Tensor x = at::randn({rows, columns}, at::kFloat), scale = fp8_scale(largest_magnitude(x), format);
  return {cast_to_fp8(x, scale, format), scale};
}

// left · right: within the bound of a sum in fp32 (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1)
// from float64's product, and from the library's of the payloads, whose right operand it wants stored by columns.
void check_product(const at::Tensor& got, const Fp8Matrix& left, const Fp8Matrix& right) {
  const at::Tensor a = left.values(at::kDouble), b = right.values(at::kDouble);
  const at::Tensor bound = at::mm(a.abs(), b.abs()) * (std::ldexp(1.0, -24) * static_cast<double>(a.size(1)));
  const at::Tensor library =
      at::_scaled_mm(left.payload.contiguous(), right.payload.t().contiguous().t(), left.scale.reciprocal(),
                     right.scale.reciprocal(), std::nullopt, std::nullopt, at::kFloat);
  CHECK((got.to(at::kDouble) - at::mm(a, b)).abs().le(bound).all().item<bool>());
  CHECK((got.to(at::kDouble) - library.to(at::kDouble)).abs().le(2 * bound).all().item<bool>());
}

TEST_CASE("products of widened payloads are torch._scaled_mm's and float64's, of odd shapes too") {
  struct Shape {
    std::int64_t tokens, input, output;
  };
  for (const Shape& shape : {Shape{2, 1, 3}, {3, 5, 7}, {17, 33, 9}, {64, 48, 257}, {129, 320, 96}}) {
    INFO(shape.tokens << " tokens, " << shape.input << " to " << shape.output);
    const Fp8Matrix x = random_fp8(shape.tokens, shape.input, Fp8Format::e4m3);
    const Fp8Matrix weight = random_fp8(shape.output, shape.input, Fp8Format::e4m3);
    const Fp8Matrix dy = random_fp8(shape.tokens, shape.output, Fp8Format::e5m2);
    const at::Tensor wide_x = x.values(at::kFloat), wide_weight = weight.values(at::kFloat),
                     wide_dy = dy.values(at::kFloat);
    check_product(kernels::linear(wide_x, wide_weight, std::nullopt), x, weight.transposed());
    check_product(linear_backward_input(wide_dy, wide_weight), dy, weight);
    at::Tensor dweight = at::zeros({shape.output, shape.input}, at::kFloat);
    linear_backward_weight(wide_dy, wide_x, dweight, Accumulation::overwrite);
    check_product(dweight, dy.transposed(), x);
  }
}

}  // namespace
}  // namespace llmtrain::kernels
