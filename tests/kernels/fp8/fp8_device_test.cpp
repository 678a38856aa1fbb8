// SPDX-License-Identifier: Apache-2.0
// FP8 on the emulated GPU: casts and scales bit for bit as a processor makes them, products as float64 does.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/fp8/fp8.h"
#include "kernels/fp8/product.h"
#include "tests/emulator/torch/backend.h"

namespace llmtrain::kernels {
namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

at::Tensor number(double value) { return at::full({1}, value, at::kFloat); }

// Every exponent with mantissas around those where scales change, 1 and 1.75; 0, subnormal numbers and what is none.
at::Tensor magnitudes() {
  const at::Tensor exponents = at::arange(256, at::kInt).mul(1 << 23).unsqueeze(1);
  const at::Tensor mantissas = at::tensor({0, 1, 0x5fffff, 0x600000, 0x600001, 0x7fffff}, at::kInt);
  return exponents.add(mantissas).flatten().view(at::kFloat);
}

void check_same_bits(const at::Tensor& got, const at::Tensor& expected) {
  REQUIRE(got.sizes() == expected.sizes());
  REQUIRE(got.scalar_type() == expected.scalar_type());
  const auto bits = expected.element_size() == 1 ? at::kByte : expected.element_size() == 2 ? at::kShort : at::kInt;
  const at::Tensor here = got.cpu(), is_nan = expected.to(at::kFloat).isnan();
  CHECK(at::equal(here.to(at::kFloat).isnan(), is_nan));
  CHECK(at::equal(here.view(bits).masked_fill(is_nan, 0), expected.view(bits).masked_fill(is_nan, 0)));
}

template <class Formula>
void check_formula(const at::Tensor& got, const at::Tensor& of, Formula formula) {
  at::Tensor expected = of.clone();
  for (std::int64_t i = 0; i < of.numel(); ++i) {
    float& x = expected.mutable_data_ptr<float>()[i];
    x = formula(x);
  }
  check_same_bits(got, expected);
}

// The power of two that places x between 2^(top − 1) and 2^top.
float placed(int top, float x, int most) {
  if (!(x > 0) || !std::isfinite(x)) return 1;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0F, std::min(std::max(top - exponent, -100), most));
}

at::Tensor every_pattern(at::ScalarType type) {
  if (type == at::kFloat) return at::cat({magnitudes(), -magnitudes(), at::linspace(-600, 600, 20001, at::kFloat)});
  return at::arange(65536, at::kInt).to(at::kShort).view(type);
}

Fp8Matrix random_fp8(std::int64_t rows, std::int64_t columns, Fp8Format format) {
  const at::Tensor x = at::randn({rows, columns}, at::kFloat), scale = fp8_scale(largest_magnitude(x), format);
  return {cast_to_fp8(x, scale, format), scale};
}

Fp8Matrix on_device(const Fp8Matrix& matrix) { return {matrix.payload.to(at::kCUDA), matrix.scale.to(at::kCUDA)}; }

at::Tensor values_of(const Fp8Matrix& matrix) { return matrix.payload.to(at::kDouble) / matrix.scale; }

// Within fp32's sums of so many terms (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1), and the
// rounding of the result.
void check_product(const char* what, const at::Tensor& got, const at::Tensor& a, const at::Tensor& b,
                   const at::Tensor& added) {
  INFO(what);
  const double rounding = got.scalar_type() == at::kBFloat16 ? 0x1p-8 : 0x1p-23;
  const at::Tensor exact = at::mm(a, b) + added;
  // What is added later is added to a rounded product.
  const at::Tensor product = (exact - added).abs() * added.ne(0);
  const at::Tensor bound =
      at::mm(a.abs(), b.abs()) * (0x1p-23 * static_cast<double>(a.size(1))) + (exact.abs() + product) * rounding;
  CHECK((got.cpu().to(at::kDouble) - exact).abs().le(bound).all().item<bool>());
}

}  // namespace

TEST_CASE("scales have the same bits on every device") {
  const at::Tensor x = magnitudes();
  for (const at::Device device : {at::kCPU, at::kCUDA}) {
    INFO(device);
    const at::Tensor there = x.to(device);
    for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2})
      check_formula(fp8_scale(there, format), x, [&](float largest) { return fp8_scale(largest, format); });
    check_formula(scale_below(12, there, 14), x, [](float largest) { return placed(12, largest, 14); });
    check_formula(scale_below(15, there, 100), x, [](float largest) { return placed(15, largest, 100); });
    const at::Tensor normal = x.masked_select(x.ge(std::numeric_limits<float>::min()).logical_and(x.isfinite()));
    check_formula(power_below(normal.to(device)), normal,
                  [](float of) { return std::exp2(std::floor(std::log2(double{of}))); });
    check_formula(shown_scale(at::ones_like(there), there), x,
                  [](float largest) { return std::isfinite(largest) ? 1 : not_a_number; });
  }
}

TEST_CASE("casts and what they count have the same bits on a GPU") {
  const auto format = GENERATE(Fp8Format::e4m3, Fp8Format::e5m2);
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const at::Tensor x = every_pattern(type), there = x.to(at::kCUDA);
  for (const double factor : {1.0, 0.25, 0x1p40, 0x1p-60}) {
    INFO(factor);
    const at::Tensor scale = number(factor), far = scale.to(at::kCUDA);
    const at::Tensor payload = cast_to_fp8(x, scale, format), device_payload = cast_to_fp8(there, far, format);
    check_same_bits(device_payload, payload);
    check_same_bits(round_to_fp8(there, far, format), round_to_fp8(x, scale, format));
    CHECK(saturated_count(device_payload).item<double>() == static_cast<double>(count_saturated(payload)));
    const at::Tensor into = at::empty_like(device_payload);
    cast_to_fp8_into(there, far, into);
    check_same_bits(into, payload);
  }
  const MeasuredFp8 rounded = round_and_measure(there, number(4).to(at::kCUDA), format);
  const MeasuredFp8 expected = round_and_measure(x, number(4), format);
  check_same_bits(rounded.values, expected.values);
  check_same_bits(rounded.largest, expected.largest);
  const at::Tensor in_place = there.clone();
  check_same_bits(round_and_measure_(in_place, number(4).to(at::kCUDA), format), expected.largest);
  check_same_bits(in_place, expected.values);
  const at::Tensor codes = at::arange(256, at::kInt).to(at::kByte).view(fp8_type(format));
  check_same_bits(widen_fp8(codes.to(at::kCUDA), number(0.5).to(at::kCUDA), type), widen_fp8(codes, number(0.5), type));
}

TEST_CASE("a matrix is cast the other way round, rows have scales of their own, and NaN is the largest") {
  at::Tensor x = at::randn({37, 50}).to(GENERATE(at::kFloat, at::kBFloat16, at::kHalf));
  const auto check = [&] {
    const at::Tensor there = x.to(at::kCUDA);
    check_same_bits(largest_magnitude(there), largest_magnitude(x));
    check_same_bits(largest_row_magnitudes(there), largest_row_magnitudes(x));
  };
  check();
  const at::Tensor scales = fp8_scale(largest_row_magnitudes(x), Fp8Format::e4m3), scale = number(16);
  const at::Tensor payload = cast_to_fp8(x, scales, Fp8Format::e4m3), far = scales.to(at::kCUDA);
  check_same_bits(cast_to_fp8(x.to(at::kCUDA), far, Fp8Format::e4m3), payload);
  check_same_bits(round_to_fp8(x.to(at::kCUDA), far, Fp8Format::e4m3), round_to_fp8(x, scales, Fp8Format::e4m3));
  check_same_bits(widen_fp8(payload.to(at::kCUDA), far, x.scalar_type()), widen_fp8(payload, scales, x.scalar_type()));
  const at::Tensor turned = cast_to_fp8(x, scale, Fp8Format::e4m3).t().contiguous();
  for (const at::Device device : {at::kCPU, at::kCUDA})
    check_same_bits(cast_to_fp8_transposed(x.to(device), scale.to(device), Fp8Format::e4m3), turned);
  x[3][4] = -HUGE_VALF;
  check();
  x[36][0] = not_a_number;
  check();
}

TEST_CASE("a GPU casts, measures and shows what is not finite in two kernels, and casts turned in one") {
  at::Tensor x = at::randn({20, 48}).to(at::kBFloat16);
  const at::Tensor scale = number(16), far = scale.to(at::kCUDA);
  const auto check = [&] {
    const at::Tensor there = x.to(at::kCUDA);
    const std::int64_t before = emulated::counters(0).launches;
    const ShownFp8 got = cast_and_show(there, far, Fp8Format::e5m2);
    CHECK(emulated::counters(0).launches - before == 2);
    const ShownFp8 expected = cast_and_show(x, scale, Fp8Format::e5m2);
    check_same_bits(got.values, expected.values);
    check_same_bits(got.scale, expected.scale);
    check_same_bits(got.largest, expected.largest);
  };
  check();
  const at::Tensor there = x.to(at::kCUDA);
  const std::int64_t before = emulated::counters(0).launches;
  cast_to_fp8_transposed(there, far, Fp8Format::e4m3);
  CHECK(emulated::counters(0).launches - before == 1);
  x[3][4] = -HUGE_VALF;
  check();
  CHECK(cast_and_show(x, scale, Fp8Format::e5m2).values.to(at::kFloat).isnan().all().item<bool>());
}

TEST_CASE("a gradient is cast on a GPU both ways in one kernel, whose products are those of two casts bitwise") {
  const std::int64_t tokens = GENERATE(48, 37);
  at::Tensor x = at::randn({tokens, 80}).to(at::kBFloat16);
  const at::Tensor there = x.to(at::kCUDA), far = number(16).to(at::kCUDA);
  const auto launches = [] { return emulated::counters(0).launches; };
  std::int64_t before = launches();
  const TurnedFp8 both = cast_to_fp8_both_ways(there, far, Fp8Format::e5m2);
  CHECK(launches() - before == 1);
  before = launches();
  const ShownFp8 shown = cast_and_show_both_ways(there, far, Fp8Format::e5m2);
  CHECK(launches() - before == 2);
  const ShownFp8 expected = cast_and_show(there, far, Fp8Format::e5m2);
  CHECK(both.turned.sizes() == at::IntArrayRef({80, 48}));
  CHECK(both.turned.narrow(1, tokens, 48 - tokens).cpu().to(at::kFloat).eq(0).all().item<bool>());
  for (const auto& [values, turned] : {both, TurnedFp8{shown.values, shown.turned}}) {
    check_same_bits(values, expected.values.cpu());
    check_same_bits(turned.narrow(1, 0, tokens).contiguous(), expected.values.cpu().t().contiguous());
  }
  check_same_bits(shown.scale, expected.scale.cpu());
  check_same_bits(shown.largest, expected.largest.cpu());
  const Fp8Matrix input = on_device(random_fp8(tokens, 32, Fp8Format::e4m3));
  at::Tensor once = at::zeros({80, 32}, at::dtype(at::kFloat).device(at::kCUDA)), twice = once.clone();
  before = launches();
  fp8_backward_weight({expected.values, far}, input, twice, Accumulation::overwrite);
  const std::int64_t of_two = launches() - before;
  fp8_backward_weight({both.values, far, both.turned}, input, once, Accumulation::overwrite);
  CHECK(launches() - before == 2 * of_two - 1);
  check_same_bits(once, twice.cpu());
  CHECK_FALSE(cast_to_fp8_both_ways(x, number(16), Fp8Format::e5m2).turned.defined());
}

TEST_CASE("a GPU casts what its kernels do not take, too: float64 and strided tensors") {
  const at::Tensor x = at::randn({20, 48}).t(), scale = number(16), far = scale.to(at::kCUDA);
  const at::Tensor strided = x.t().to(at::kCUDA).t(), wide = x.contiguous().to(at::kDouble).to(at::kCUDA);
  const ShownFp8 expected = cast_and_show(x.contiguous(), scale, Fp8Format::e4m3);
  for (const at::Tensor& there : {strided, wide}) {
    const ShownFp8 got = cast_and_show(there, far, Fp8Format::e4m3);
    check_same_bits(got.values.contiguous(), expected.values);
    check_same_bits(got.scale, scale);
    check_same_bits(got.largest, expected.largest);
    check_same_bits(round_to_fp8(there, far, Fp8Format::e4m3).to(at::kFloat).contiguous(),
                    round_to_fp8(x.contiguous(), scale, Fp8Format::e4m3));
    check_same_bits(cast_to_fp8_transposed(there, far, Fp8Format::e4m3), expected.values.t().contiguous());
  }
}

TEST_CASE("products of FP8 numbers are float64's, of shapes that the library does not take too") {
  struct Shape {
    std::int64_t tokens, input, output;
  };
  const Shape shape = GENERATE(Shape{2, 1, 3}, Shape{16, 32, 48}, Shape{17, 33, 9}, Shape{48, 80, 257});
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  INFO(shape.tokens << " tokens, " << shape.input << " to " << shape.output << " " << type);
  const Fp8Matrix x = random_fp8(shape.tokens, shape.input, Fp8Format::e4m3);
  const Fp8Matrix weight = random_fp8(shape.output, shape.input, Fp8Format::e4m3);
  const Fp8Matrix dy = random_fp8(shape.tokens, shape.output, Fp8Format::e5m2);
  const at::Tensor wide_x = values_of(x), wide_weight = values_of(weight), wide_dy = values_of(dy);
  const at::Tensor none = at::zeros({1}, at::kDouble);
  check_product("y", fp8_linear(on_device(x), on_device(weight), std::nullopt, type), wide_x, wide_weight.t(), none);
  // From an address that is not even one of its type's vectors, and in another type than the product's.
  for (const auto bias_type : {type, at::kFloat}) {
    const at::Tensor bias = at::randn({shape.output + 1}).to(bias_type).slice(0, 1);
    const at::Tensor there = at::cat({bias.slice(0, 0, 1), bias}).to(at::kCUDA).slice(0, 1);
    check_product("y", fp8_linear(on_device(x), on_device(weight), there, type), wide_x, wide_weight.t(),
                  bias.to(at::kDouble));
  }
  const Fp8Matrix turned{weight.payload.t().contiguous(), weight.scale};
  check_product("dx", fp8_backward_input(on_device(dy), on_device(turned), type), wide_dy, wide_weight, none);
  at::Tensor dweight = at::full({shape.output, shape.input}, not_a_number, at::dtype(type).device(at::kCUDA));
  fp8_backward_weight(on_device(dy), on_device(x), dweight, Accumulation::overwrite);
  check_product("dweight", dweight, wide_dy.t(), wide_x, none);
  const at::Tensor before = dweight.cpu().to(at::kDouble);
  fp8_backward_weight(on_device(dy), on_device(x), dweight, Accumulation::add);
  check_product("dweight", dweight, wide_dy.t(), wide_x, before);
}

TEST_CASE("operands at any address are multiplied, and a scale that is no number shows") {
  const Fp8Matrix x = random_fp8(16, 32, Fp8Format::e4m3), weight = random_fp8(16, 32, Fp8Format::e4m3);
  const at::Tensor flat = at::zeros({1 + weight.payload.numel()}, at::kByte);
  flat.slice(0, 1).copy_(weight.payload.view(at::kByte).flatten());
  const at::Tensor askew = flat.to(at::kCUDA).slice(0, 1).view({16, 32}).view(at::kFloat8_e4m3fn);
  const at::Tensor y = fp8_linear(on_device(x), {askew, weight.scale.to(at::kCUDA)}, std::nullopt, at::kFloat);
  check_product("y", y, values_of(x), values_of(weight).t(), at::zeros({1}, at::kDouble));
  CHECK_THROWS_WITH(fp8_linear(on_device(x), on_device(random_fp8(16, 30, Fp8Format::e4m3)), std::nullopt, at::kFloat),
                    Catch::Contains("32 and 30"));
  const Fp8Matrix broken{on_device(x).payload, number(not_a_number).to(at::kCUDA)};
  CHECK(fp8_linear(broken, on_device(weight), std::nullopt, at::kFloat).isnan().all().item<bool>());
}

// The emulated operator: what it lets pass is what these products may ask of a real one.
TEST_CASE("the emulated product refuses what cuBLASLt refuses") {
  const Fp8Matrix x = on_device(random_fp8(16, 32, Fp8Format::e4m3)),
                  weight = on_device(random_fp8(48, 32, Fp8Format::e4m3));
  const at::Tensor one = at::ones({1}, at::dtype(at::kFloat).device(at::kCUDA));
  const auto product = [&](const at::Tensor& left, const at::Tensor& right, const at::Tensor& scale,
                           at::ScalarType type = at::kBFloat16, const std::optional<at::Tensor>& bias = {}) {
    return at::_scaled_mm(left, right, scale, one, bias, std::nullopt, type);
  };
  const at::Tensor right = weight.payload.t();
  CHECK_NOTHROW(product(x.payload, right, one));
  CHECK_THROWS_WITH(product(x.payload, right.contiguous(), one), Catch::Contains("column-major"));
  CHECK_THROWS_WITH(product(x.payload.narrow(1, 0, 24), right.narrow(0, 0, 24), one),
                    Catch::Contains("divisible by 16"));
  CHECK_THROWS_WITH(product(x.payload, right.narrow(1, 0, 40), one), Catch::Contains("divisible by 16"));
  CHECK_THROWS_WITH(product(x.payload, right, at::ones({1}, at::kFloat)), Catch::Contains("device"));
  CHECK_THROWS_WITH(product(x.payload, right, one.to(at::kHalf)), Catch::Contains("float32"));
  CHECK_THROWS_WITH(product(x.payload.view(at::kByte).view(at::kFloat8_e5m2), right.view(at::kFloat8_e5m2), one),
                    Catch::Contains("e5m2"));
  const at::Tensor bias = at::zeros({48}, at::dtype(at::kFloat).device(at::kCUDA));
  CHECK_THROWS_WITH(product(x.payload, right, one, at::kFloat, bias), Catch::Contains("not supported"));
  CHECK_THROWS_WITH(product(x.payload, right, one, at::kBFloat16, bias), Catch::Contains("Bias must be"));
  const at::Tensor rows = at::ones({16, 1}, one.options()), columns = at::ones({1, 48}, one.options());
  CHECK_NOTHROW(at::_scaled_mm(x.payload, right, rows, columns, {}, {}, at::kBFloat16));
  CHECK_THROWS_WITH(at::_scaled_mm(x.payload, right, rows, columns, {}, {}, at::kFloat), Catch::Contains("row-wise"));
  CHECK_THROWS_WITH(at::_scaled_mm(x.payload, right, rows, one, {}, {}, at::kBFloat16),
                    Catch::Contains("Invalid scaling"));
}

}  // namespace llmtrain::kernels
