// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/comm/numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace llmtrain::test {
namespace {

// Threads share memory alike whatever its type, and the thread sanitizer looks at every access.
#ifdef __SANITIZE_THREAD__
constexpr bool sees_all_types = false;
#else
constexpr bool sees_all_types = true;
#endif

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
};

Format format_of(ElementType type) {
  switch (type) {
    case ElementType::bfloat16:
      return {8, 7, true};
    case ElementType::float16:
      return {5, 10, true};
    case ElementType::float8_e4m3:
      return {4, 3, false};
    default:
      return {5, 2, true};
  }
}

bool is_small_float(ElementType type) {
  return type == ElementType::bfloat16 || type == ElementType::float16 || type == ElementType::float8_e4m3 ||
         type == ElementType::float8_e5m2;
}

template <class Number>
void store(std::byte* address, double value) {
  const auto number = static_cast<Number>(value);
  std::memcpy(address, &number, sizeof number);
}

template <class Number>
double load(const std::byte* address) {
  Number number;
  std::memcpy(&number, address, sizeof number);
  return static_cast<double>(number);
}

}  // namespace

double decode(ElementType type, unsigned bits) {
  const Format format = format_of(type);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const unsigned mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const double sign = (bits >> (format.exponent_bits + format.mantissa_bits)) != 0 ? -1 : 1;
  const bool is_top = exponent == (1 << format.exponent_bits) - 1;
  if (is_top && format.has_infinity)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (is_top && mantissa == (1u << format.mantissa_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << format.mantissa_bits), exponent - bias - format.mantissa_bits);
}

namespace {

std::vector<double> decode_positive(ElementType type) {
  std::vector<double> values(std::size_t{1} << (8 * element_size(type) - 1));
  for (unsigned bits = 0; bits < values.size(); ++bits) values[bits] = decode(type, bits);
  return values;
}

std::size_t small_float_index(ElementType type) {
  return static_cast<std::size_t>(type) - static_cast<std::size_t>(ElementType::bfloat16);
}

const std::vector<double>& positive_values(ElementType type) {
  static const std::vector<double> tables[]{
      decode_positive(ElementType::bfloat16), decode_positive(ElementType::float16),
      decode_positive(ElementType::float8_e4m3), decode_positive(ElementType::float8_e5m2)};
  return tables[small_float_index(type)];
}

}  // namespace

unsigned encode(ElementType type, double value) {
  const Format format = format_of(type);
  const std::vector<double>& values = positive_values(type);
  const unsigned sign = std::signbit(value) ? 1u << (format.exponent_bits + format.mantissa_bits) : 0;
  // Patterns of one sign are ordered by value: the one past the largest counts as the next power step.
  unsigned low = 0, high = (1u << (format.exponent_bits + format.mantissa_bits)) - 1;
  if (format.has_infinity) high = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
  const unsigned beyond = high;
  const double step = values[beyond - 1] - values[beyond - 2];
  const auto value_of = [&](unsigned bits) { return bits == beyond ? values[beyond - 1] + step : values[bits]; };
  const double size = std::abs(value);
  if (!(size < value_of(beyond))) return sign | beyond;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (value_of(middle) <= size ? low : high) = middle;
  }
  const double below = size - value_of(low), above = value_of(high) - size;
  const bool takes_high = above < below || (above == below && (high & 1) == 0);
  return sign | (takes_high ? high : low);
}

namespace {

// Most values of the tests are small whole numbers. They are searched for once: the search would take most of the
// tests' time, and several times as much under sanitizers.
constexpr int largest_kept = 64;
using KeptNumbers = std::array<std::uint16_t, 2 * largest_kept + 1>;

KeptNumbers encode_small_numbers(ElementType type) {
  KeptNumbers bits{};
  for (int number = -largest_kept; number <= largest_kept; ++number)
    bits[static_cast<std::size_t>(number + largest_kept)] = static_cast<std::uint16_t>(encode(type, number));
  return bits;
}

unsigned quickly_encoded(ElementType type, double value) {
  static const std::array<KeptNumbers, 4> kept{
      encode_small_numbers(ElementType::bfloat16), encode_small_numbers(ElementType::float16),
      encode_small_numbers(ElementType::float8_e4m3), encode_small_numbers(ElementType::float8_e5m2)};
  const bool is_kept =
      std::abs(value) <= largest_kept && value == std::trunc(value) && !(value == 0 && std::signbit(value));
  if (!is_kept) return encode(type, value);
  return kept[small_float_index(type)][static_cast<std::size_t>(static_cast<int>(value) + largest_kept)];
}

}  // namespace

Values::Values(ElementType type, std::int64_t count, int offset)
    : type_(type),
      count_(count),
      offset_(static_cast<std::size_t>(offset)),
      bytes_(static_cast<std::size_t>(count * element_size(type)) + offset_) {}

std::byte* Values::address(std::int64_t index) {
  return bytes_.data() + offset_ + static_cast<std::size_t>(index * element_size(type_));
}

const std::byte* Values::address(std::int64_t index) const { return const_cast<Values*>(this)->address(index); }

void Values::set(std::int64_t index, double value) {
  std::byte* place = address(index);
  if (is_small_float(type_)) {
    const unsigned bits = quickly_encoded(type_, value);
    std::memcpy(place, &bits, static_cast<std::size_t>(element_size(type_)));
  } else if (type_ == ElementType::float32) {
    store<float>(place, value);
  } else if (type_ == ElementType::int32) {
    store<std::int32_t>(place, value);
  } else if (type_ == ElementType::int64) {
    store<std::int64_t>(place, value);
  } else {
    store<std::uint8_t>(place, value);
  }
}

double Values::get(std::int64_t index) const {
  const std::byte* place = address(index);
  if (is_small_float(type_)) {
    unsigned bits = 0;
    std::memcpy(&bits, place, static_cast<std::size_t>(element_size(type_)));
    return decode(type_, bits);
  }
  if (type_ == ElementType::float32) return load<float>(place);
  if (type_ == ElementType::int32) return load<std::int32_t>(place);
  if (type_ == ElementType::int64) return load<std::int64_t>(place);
  return load<std::uint8_t>(place);
}

bool Values::has_at(std::int64_t begin, const Values& other) const {
  if (type_ != other.type_ || begin + other.count_ > count_) return false;
  const auto place = offset_ + static_cast<std::size_t>(begin * element_size(type_));
  return std::equal(other.bytes_.begin() + static_cast<std::ptrdiff_t>(other.offset_), other.bytes_.end(),
                    bytes_.begin() + static_cast<std::ptrdiff_t>(place));
}

bool Values::operator==(const Values& other) const { return count_ == other.count_ && has_at(0, other); }

const std::vector<ElementType>& all_types() {
  static const std::vector<ElementType> types = [] {
    std::vector<ElementType> all = floating_types();
    all.push_back(ElementType::int64);
    if (!sees_all_types) return all;
    all.insert(all.end(), {ElementType::int32, ElementType::uint8});
    return all;
  }();
  return types;
}

const std::vector<ElementType>& floating_types() {
  static const std::vector<ElementType> types =
      sees_all_types ? std::vector{ElementType::float32, ElementType::bfloat16, ElementType::float16,
                                   ElementType::float8_e4m3, ElementType::float8_e5m2}
                     : std::vector{ElementType::float32, ElementType::float8_e4m3};
  return types;
}

double small_number(ElementType type, int rank, std::int64_t index) {
  const std::int64_t mixed = (index * 7 + rank * 5 + index / 11) % 7;
  return static_cast<double>(type == ElementType::uint8 ? mixed : mixed - 3);
}

}  // namespace llmtrain::test
