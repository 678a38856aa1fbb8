// SPDX-License-Identifier: Apache-2.0
// The kernels of FP8, run on the processor, against a search through all numbers of the formats: all types, rows that
// are not aligned, none at all.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/fp8/fp8_kernels.h"
#include "tests/emulator/cuda/small_floats.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

using llmtrain::test::ExactArray;

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN(), infinity = HUGE_VALF;

emulated::Fp8Format searched(Fp8Format format) { return format == Fp8Format::e4m3 ? emulated::e4m3 : emulated::e5m2; }

std::uint8_t code_of(float x, Fp8Format format) {
  return emulated::narrowed_fp8(std::isnan(x) ? x : std::clamp(x, -largest_of(format), largest_of(format)),
                                searched(format));
}

float value_of(std::uint8_t code, Fp8Format format) { return emulated::widened_fp8(code, searched(format)); }

bool differs(float a, float b) {
  return std::isnan(a) != std::isnan(b) ||
         (!std::isnan(a) && std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b));
}

// Numbers that end exactly behind the last one, and begin behind a place that is aligned, or off it by one.
template <class T>
struct Elements {
  explicit Elements(std::size_t n, bool is_shifted = false) : size(n), first(is_shifted ? 1 : 0), values(first + n) {}
  T* data() const { return values.data() + first; }
  T& operator[](std::size_t i) const { return data()[i]; }
  std::size_t size, first;
  ExactArray<T> values;
};

struct Shape {
  std::int64_t rows, columns;
  bool is_shifted = false;
  std::size_t count() const { return static_cast<std::size_t>(rows * columns); }
};

// One block and several, whole spans and not; the first ones have one scale.
const std::vector<Shape> shapes{{1, 1}, {1, 4096 + 21}, {1, 4096, true}, {1, 0}, {3, 48},
                                {5, 7}, {2, 2080},      {3, 48, true},   {0, 16}};

enum class Values { any, finite };

// Magnitudes across both formats' ranges, among them ties, and what is no number.
template <class T>
void fill(const Elements<T>& x, Values values) {
  std::mt19937 engine(11);
  std::uniform_int_distribution<int> exponent(-22, 18), eighths(-15, 15);
  for (std::size_t i = 0; i < x.size; ++i)
    x[i] = narrowed<T>(std::ldexp(static_cast<float>(eighths(engine)) + 0x1p-5F * static_cast<float>(i % 3),
                                  exponent(engine) % (sizeof(T) == 2 && kind_of<T> == KernelElement::fp16 ? 12 : 40)));
  if (values == Values::finite) return;
  const std::vector<float> special{0, -0.0F, infinity, -infinity, not_a_number};
  for (std::size_t i = 0; i < special.size() && i < x.size; ++i) x[x.size - 1 - i] = narrowed<T>(special[i]);
}

template <class T>
struct Case {
  Case(const Shape& s, Values values) : shape(s) {
    fill(x, values);
    for (std::int64_t row = 0; row < s.rows; ++row)
      scales[static_cast<std::size_t>(row)] = std::ldexp(1.0F, static_cast<int>(row * 3 - 2));
  }
  float scale(std::size_t i) const { return scales[i / static_cast<std::size_t>(shape.columns)]; }
  float largest() const {
    float most = 0;
    for (std::size_t i = 0; i < x.size; ++i) {
      const float size = std::fabs(widened(x[i]));
      if (std::isnan(size) || size > most) most = size;
      if (std::isnan(most)) break;
    }
    return most;
  }
  Fp8Measure measure() const { return {partials.data(), found.data(), nullptr}; }
  bool has_overrun() const {
    return x.values.has_overrun() || codes.values.has_overrun() || found.has_overrun() || partials.has_overrun() ||
           shown.has_overrun();
  }

  Shape shape;
  Elements<T> x{shape.count(), shape.is_shifted};
  Elements<std::uint8_t> codes{shape.count(), shape.is_shifted};
  ExactArray<float> scales{static_cast<std::size_t>(shape.rows)}, found{1, -1.0F}, shown{1, -1.0F};
  ExactArray<unsigned> partials{most_fp8_partials};
};

template <class T>
void check_cast(const Case<T>& c, Fp8Format format, const Fp8Measure& measure) {
  cuda_fp8_kernels.cast(
      {kind_of<T>, format, c.x.data(), c.scales.data(), c.codes.data(), c.shape.rows, c.shape.columns, measure, {}},
      nullptr);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < c.x.size; ++i)
    wrong += differs(value_of(c.codes[i], format), value_of(code_of(widened(c.x[i]) * c.scale(i), format), format));
  CHECK(wrong == 0);
  if (measure.largest != nullptr) CHECK_FALSE(differs(c.found[0], c.largest()));
}

template <class T>
void check_round(const Case<T>& c, Fp8Format format) {
  std::vector<float> expected;
  for (std::size_t i = 0; i < c.x.size; ++i) {
    const float rounded = value_of(code_of(widened(c.x[i]) * c.scale(i), format), format);
    expected.push_back(widened(narrowed<T>(rounded / c.scale(i))));
  }
  const float largest = c.largest();
  cuda_fp8_kernels.round(
      {kind_of<T>, format, c.x.data(), c.scales.data(), c.x.data(), c.shape.rows, c.shape.columns, c.measure(), {}},
      nullptr);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < c.x.size; ++i) wrong += differs(widened(c.x[i]), expected[i]);
  CHECK(wrong == 0);
  CHECK_FALSE(differs(c.found[0], largest));
}

template <class T>
void check_widen(const Case<T>& c, Fp8Format format) {
  for (std::size_t i = 0; i < c.codes.size; ++i) c.codes[i] = static_cast<std::uint8_t>(i * 37);
  cuda_fp8_kernels.widen(
      {kind_of<T>, format, c.codes.data(), c.scales.data(), c.x.data(), c.shape.rows, c.shape.columns}, nullptr);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < c.codes.size; ++i)
    wrong += differs(widened(c.x[i]), widened(narrowed<T>(value_of(c.codes[i], format) / c.scale(i))));
  CHECK(wrong == 0);
}

template <class T>
void check_largest(const Shape& shape, Values values) {
  const Case<T> c(shape, values);
  const auto rows = static_cast<std::size_t>(shape.rows), columns = static_cast<std::size_t>(shape.columns);
  const ExactArray<unsigned> partials(rows * static_cast<std::size_t>(fp8_row_parts(shape.rows, shape.columns)));
  const ExactArray<float> largest(rows, -1.0F);
  cuda_fp8_kernels.largest({kind_of<T>, c.x.data(), partials.data(), largest.data(), shape.rows, shape.columns},
                           nullptr);
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    float most = 0;
    for (std::size_t i = 0; i < columns && !std::isnan(most); ++i) {
      const float size = std::fabs(widened(c.x[row * columns + i]));
      if (!(size <= most)) most = size;
    }
    wrong += differs(largest[row], most);
  }
  CHECK(wrong == 0);
  CHECK_FALSE(partials.has_overrun());
  CHECK_FALSE(largest.has_overrun());
}

template <class T>
void check_shapes() {
  for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2})
    for (const Shape& shape : shapes) {
      INFO(shape.rows << " rows of " << shape.columns);
      const Case<T> c(shape, Values::any);
      check_cast(c, format, {});
      check_cast(c, format, c.measure());
      check_round(c, format);
      check_widen(c, format);
      CHECK_FALSE(c.has_overrun());
    }
}

template <class T>
void check_maxima() {
  // Rows of one part and of several, the last one of which is not whole.
  for (const Shape& shape : {Shape{1, 0}, Shape{1, 5}, Shape{4, 48}, Shape{3, 1031}, Shape{2, 16384 + 40},
                             Shape{1, 40000, true}, Shape{0, 3}}) {
    INFO(shape.rows << " rows of " << shape.columns);
    check_largest<T>(shape, Values::any);
    check_largest<T>(shape, Values::finite);
  }
}

// Codes as well as numbers; turned rows with gaps behind them, which are zero.
template <class T>
void check_turn(const Shape& shape, std::int64_t stride, Fp8Format format) {
  constexpr bool are_codes = sizeof(T) == 1;
  INFO(shape.rows << " rows of " << shape.columns << ", stride " << stride << ", bytes " << sizeof(T));
  const Elements<T> x(shape.count(), shape.is_shifted);
  if constexpr (are_codes) {
    for (std::size_t i = 0; i < x.size; ++i) x[i] = static_cast<std::uint8_t>(i * 41 + i / 256);
  } else {
    fill(x, Values::finite);
  }
  const auto columns = static_cast<std::size_t>(shape.columns), rows = static_cast<std::size_t>(shape.rows);
  const auto wide = static_cast<std::size_t>(stride);
  const Elements<std::uint8_t> turned(columns * wide, shape.is_shifted);
  std::fill_n(turned.data(), turned.size, std::uint8_t{0xee});
  const ExactArray<float> scale(1, 0x1p3F);
  std::optional<KernelElement> element;
  if constexpr (!are_codes) element = kind_of<T>;
  cuda_fp8_kernels.turn({element,
                         format,
                         x.data(),
                         are_codes ? nullptr : scale.data(),
                         turned.data(),
                         shape.rows,
                         shape.columns,
                         stride,
                         nullptr,
                         {},
                         {}},
                        nullptr);
  std::size_t wrong = 0;
  for (std::size_t column = 0; column < columns; ++column)
    for (std::size_t row = 0; row < wide; ++row) {
      std::uint8_t expected = 0;
      if (row < rows) {
        if constexpr (are_codes) {
          expected = x[row * columns + column];
        } else {
          expected = code_of(widened(x[row * columns + column]) * 8, format);
        }
      }
      wrong += turned[column * wide + row] != expected;
    }
  CHECK(wrong == 0);
  CHECK_FALSE(x.values.has_overrun());
  CHECK_FALSE(turned.values.has_overrun());
}

template <class T>
void check_turns() {
  for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
    check_turn<T>({128, 128}, 128, format);
    check_turn<T>({131, 80}, 144, format);
    check_turn<T>({5, 33}, 5, format);
    check_turn<T>({33, 150}, 48, format);
    check_turn<T>({48, 96, true}, 48, format);
    check_turn<T>({0, 3}, 0, format);
  }
}

// A cast in one pass, and what it says, is bitwise a cast and its codes turned.
template <class T>
void check_both_ways(const Shape& shape, std::int64_t stride, Fp8Format format, Values values) {
  INFO(shape.rows << " rows of " << shape.columns << ", stride " << stride << ", bytes " << sizeof(T));
  struct Results {
    Elements<std::uint8_t> codes, turned;
    ExactArray<float> largest{1, -1.0F}, shown{1, -1.0F};
    ExactArray<unsigned> partials;
    Fp8Measure measure() const { return {partials.data(), largest.data(), shown.data()}; }
    bool has_overrun() const {
      return codes.values.has_overrun() || turned.values.has_overrun() || largest.has_overrun() ||
             shown.has_overrun() || partials.has_overrun();
    }
  };
  const auto columns = static_cast<std::size_t>(shape.columns), of_turned = columns * static_cast<std::size_t>(stride);
  const auto results = [&](std::size_t partials) {
    return Results{.codes = Elements<std::uint8_t>(shape.count(), shape.is_shifted),
                   .turned = Elements<std::uint8_t>(of_turned, shape.is_shifted),
                   .partials = ExactArray<unsigned>(partials)};
  };
  const Elements<T> x(shape.count(), shape.is_shifted);
  fill(x, values);
  const ExactArray<float> scale(1, 0x1p3F);
  const Results one = results(static_cast<std::size_t>(fp8_turn_tiles(kind_of<T>, shape.columns, stride))),
                two = results(most_fp8_partials);
  std::fill_n(one.turned.data(), of_turned, std::uint8_t{0xee});
  Fp8TurnArguments turn;
  turn.format = format, turn.rows = shape.rows, turn.columns = shape.columns, turn.stride = stride;
  turn.element = kind_of<T>, turn.x = x.data(), turn.scale = scale.data();
  turn.turned = one.turned.data(), turn.codes = one.codes.data(), turn.measure = one.measure();
  cuda_fp8_kernels.turn(turn, nullptr);
  cuda_fp8_kernels.cast(
      {kind_of<T>, format, x.data(), scale.data(), two.codes.data(), 1, shape.rows * shape.columns, two.measure(), {}},
      nullptr);
  turn.element.reset(), turn.x = two.codes.data(), turn.scale = nullptr;
  turn.turned = two.turned.data(), turn.codes = nullptr, turn.measure = {};
  cuda_fp8_kernels.turn(turn, nullptr);
  CHECK(std::equal(one.codes.data(), one.codes.data() + shape.count(), two.codes.data()));
  CHECK(std::equal(one.turned.data(), one.turned.data() + of_turned, two.turned.data()));
  CHECK_FALSE(differs(one.largest[0], two.largest[0]));
  CHECK_FALSE(differs(one.shown[0], two.shown[0]));
  CHECK_FALSE(one.has_overrun());
  CHECK_FALSE(x.values.has_overrun());
}

template <class T>
void check_all_both_ways() {
  // The last ones have several tiles along each side, and no columns or rows.
  for (const auto& [shape, stride] : {std::pair{Shape{128, 128}, 128L},
                                      {Shape{131, 80}, 144L},
                                      {Shape{5, 33}, 16L},
                                      {Shape{33, 150}, 48L},
                                      {Shape{48, 96, true}, 48L},
                                      {Shape{300, 136}, 304L},
                                      {Shape{3, 0}, 16L},
                                      {Shape{0, 3}, 0L}})
    for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
      check_both_ways<T>(shape, stride, format, Values::finite);
      check_both_ways<T>(shape, stride, format, Values::any);
    }
}

}  // namespace

TEST_CASE("A GPU casts a matrix to FP8 both ways at once, bitwise as in two passes") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_all_both_ways<float>(); }
  SECTION("bf16") { check_all_both_ways<__nv_bfloat16>(); }
  SECTION("fp16") { check_all_both_ways<__half>(); }
}

TEST_CASE("A GPU's casts to FP8, roundings and widenings are exact, and say which magnitude is the largest") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_shapes<float>(); }
  SECTION("bf16") { check_shapes<__nv_bfloat16>(); }
  SECTION("fp16") { check_shapes<__half>(); }
}

TEST_CASE("A GPU finds the largest magnitudes of rows, of which NaN is the largest") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_maxima<float>(); }
  SECTION("bf16") { check_maxima<__nv_bfloat16>(); }
  SECTION("fp16") { check_maxima<__half>(); }
}

TEST_CASE("A GPU turns matrices of FP8 and casts them turned") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("codes") { check_turns<std::uint8_t>(); }
  SECTION("fp32") { check_turns<float>(); }
  SECTION("bf16") { check_turns<__nv_bfloat16>(); }
  SECTION("fp16") { check_turns<__half>(); }
}

TEST_CASE("Where a number is not finite, a GPU's cast and its scale are NaN on request") {
  const float last = GENERATE(1.0F, infinity, not_a_number);
  // More than a block of the second kernel overwrites at once.
  const Case<__nv_bfloat16> c({1, 70000}, Values::finite);
  c.x[c.x.size - 1] = narrowed<__nv_bfloat16>(last);
  Fp8Measure measure = c.measure();
  measure.shown_scale = c.shown.data();
  if (std::isfinite(last)) {
    check_cast(c, Fp8Format::e5m2, measure);
    CHECK(c.shown[0] == c.scales[0]);
  } else {
    cuda_fp8_kernels.cast({KernelElement::bf16,
                           Fp8Format::e5m2,
                           c.x.data(),
                           c.scales.data(),
                           c.codes.data(),
                           1,
                           c.shape.columns,
                           measure,
                           {}},
                          nullptr);
    CHECK_FALSE(differs(c.found[0], last));
    CHECK(std::isnan(c.shown[0]));
    CHECK(std::all_of(c.codes.data(), c.codes.data() + c.codes.size,
                      [](std::uint8_t code) { return std::isnan(value_of(code, Fp8Format::e5m2)); }));
  }
  CHECK_FALSE(c.has_overrun());
}

TEST_CASE("A GPU counts the codes of the largest number and its negative") {
  const auto format = GENERATE(Fp8Format::e4m3, Fp8Format::e5m2);
  const std::uint8_t largest = format == Fp8Format::e4m3 ? 0x7e : 0x7b;
  // The largest array has more than all blocks read at once.
  for (const std::size_t count : {std::size_t{0}, std::size_t{37}, std::size_t{most_fp8_partials} * 4096 + 5}) {
    const Elements<std::uint8_t> codes(count);
    for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(i * 29 + i / 256);
    if (count > 0) codes[count - 1] = largest;
    const auto expected =
        std::count_if(codes.data(), codes.data() + count, [&](std::uint8_t code) { return (code & 0x7f) == largest; });
    const ExactArray<float> counted(1, -1.0F);
    const ExactArray<unsigned> partials(most_fp8_partials);
    cuda_fp8_kernels.count_saturated(
        {format, codes.data(), partials.data(), counted.data(), static_cast<std::int64_t>(count)}, nullptr);
    CHECK(counted[0] == static_cast<float>(expected));
  }
}

}  // namespace llmtrain::kernels
