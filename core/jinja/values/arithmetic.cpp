// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/arithmetic.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/jinja/values/format_spec.h"
#include "core/jinja/values/percent_format.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

constexpr const char* too_large = "an integer is beyond 64 bits";

std::optional<std::int64_t> integer_in(const Value& value) {
  if (const auto* flag = value.as<bool>()) return *flag ? 1 : 0;
  if (const auto* integer = value.as<std::int64_t>()) return *integer;
  return std::nullopt;
}

std::optional<double> number_in(const Value& value) {
  if (const auto integer = integer_in(value)) return static_cast<double>(*integer);
  if (const auto* number = value.as<double>()) return *number;
  return std::nullopt;
}

std::string_view sign_of(Operator operation) {
  switch (operation) {
    case Operator::add:
      return "+";
    case Operator::subtract:
      return "-";
    case Operator::multiply:
      return "*";
    case Operator::divide:
      return "/";
    case Operator::floor_divide:
      return "//";
    case Operator::modulo:
      return "%";
    case Operator::power:
      return "** or pow()";
  }
  return "";
}

[[noreturn]] void refuse(Operator operation, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (const auto* missing = value->as<Undefined>()) throw Refused(*missing->why);
  }
  throw Refused(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", sign_of(operation), type_name(left),
                            type_name(right)));
}

std::int64_t floor_quotient(std::int64_t left, std::int64_t right) {
  const std::int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Value integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw Refused("0.0 cannot be raised to a negative power");
    return number(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  for (std::int64_t factor = base;; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, factor, &result)) throw Refused(too_large);
    if (exponent <= 1) return integer(result);
    if (__builtin_mul_overflow(factor, factor, &factor)) throw Refused(too_large);
  }
}

Value calculate_integers(Operator operation, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  bool overflows = false;
  switch (operation) {
    case Operator::add:
      overflows = __builtin_add_overflow(left, right, &result);
      break;
    case Operator::subtract:
      overflows = __builtin_sub_overflow(left, right, &result);
      break;
    case Operator::multiply:
      overflows = __builtin_mul_overflow(left, right, &result);
      break;
    case Operator::divide:
      if (right == 0) throw Refused("division by zero");
      return number(static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right)));
    case Operator::floor_divide:
    case Operator::modulo:
      if (right == 0) throw Refused("integer division or modulo by zero");
      if (right == -1) return operation == Operator::modulo ? integer(0) : negated(integer(left));
      result = floor_quotient(left, right);
      if (operation == Operator::modulo) result = left - result * right;
      break;
    case Operator::power:
      return integer_power(left, right);
  }
  if (overflows) throw Refused(too_large);
  return integer(result);
}

double float_modulo(double left, double right) {
  double rest = std::fmod(left, right);
  if (rest != 0 && (right < 0) != (rest < 0)) rest += right;
  return rest == 0 ? std::copysign(0.0, right) : rest;
}

double float_floor_quotient(double left, double right) {
  const double rest = float_modulo(left, right);
  const double quotient = (left - rest) / right;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

double float_power(double base, double exponent) {
  if (base == 0 && exponent < 0) throw Refused("0.0 cannot be raised to a negative power");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) && std::floor(exponent) != exponent)
    throw Refused("the power is a complex number");
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) throw Refused("the power is too large");
  return result;
}

Value calculate_floats(Operator operation, double left, double right) {
  switch (operation) {
    case Operator::add:
      return number(left + right);
    case Operator::subtract:
      return number(left - right);
    case Operator::multiply:
      return number(left * right);
    case Operator::divide:
      if (right == 0) throw Refused("float division by zero");
      return number(left / right);
    case Operator::floor_divide:
      if (right == 0) throw Refused("float floor division by zero");
      return number(float_floor_quotient(left, right));
    case Operator::modulo:
      if (right == 0) throw Refused("float modulo by zero");
      return number(float_modulo(left, right));
    case Operator::power:
      return number(float_power(left, right));
  }
  return none();
}

Value repeated(const Value& value, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (text_of(value)) {
    TextBuilder result;
    result.add(plain_text(value), count);
    return text(result.take());
  }
  const auto& elements = *elements_of(value);
  constexpr std::size_t most = 1 << 20;
  if (!elements.empty() && count > most / elements.size()) throw Refused("a repeated list is too long");
  std::vector<Value> result;
  for (std::size_t index = 0; index < count; ++index) result.insert(result.end(), elements.begin(), elements.end());
  return value.is<List>() ? list(std::move(result)) : tuple(std::move(result));
}

// What is added to a text that is marked safe is escaped.
Value added_texts(const Text& left, const Text& right) {
  const bool is_markup = left.is_markup || right.is_markup;
  const auto part = [&](const Text& text) {
    return is_markup && !text.is_markup ? escaped_html(*text.bytes) : *text.bytes;
  };
  Value result = text(part(left) + part(right));
  std::get<Text>(result.data).is_markup = is_markup;
  return result;
}

Value joined(const Value& left, const Value& right) {
  std::vector<Value> values = *elements_of(left);
  const auto& more = *elements_of(right);
  values.insert(values.end(), more.begin(), more.end());
  return left.is<List>() ? list(std::move(values)) : tuple(std::move(values));
}

bool is_repeatable(const Value& value) { return text_of(value) || elements_of(value); }

}  // namespace

Value calculate(Operator operation, const Value& left, const Value& right) {
  if (operation == Operator::modulo && text_of(left)) return text(percent_formatted(plain_text(left), right));
  const auto first_integer = integer_in(left), second_integer = integer_in(right);
  if (first_integer && second_integer) return calculate_integers(operation, *first_integer, *second_integer);
  const auto first = number_in(left), second = number_in(right);
  if (first && second) return calculate_floats(operation, *first, *second);
  if (operation == Operator::add && left.data.index() == right.data.index()) {
    if (const auto* text = left.as<Text>()) return added_texts(*text, *right.as<Text>());
    if (elements_of(left)) return joined(left, right);
  }
  if (operation == Operator::multiply && is_repeatable(left) && second_integer) return repeated(left, *second_integer);
  if (operation == Operator::multiply && is_repeatable(right) && first_integer) return repeated(right, *first_integer);
  refuse(operation, left, right);
}

Value negated(const Value& value) {
  if (const auto integer_value = integer_in(value)) {
    if (*integer_value == std::numeric_limits<std::int64_t>::min()) throw Refused(too_large);
    return integer(-*integer_value);
  }
  if (const auto* number_value = value.as<double>()) return number(-*number_value);
  if (const auto* missing = value.as<Undefined>()) throw Refused(*missing->why);
  throw Refused("bad operand type for unary -: '" + type_name(value) + "'");
}

Value unchanged(const Value& value) {
  if (const auto integer_value = integer_in(value)) return integer(*integer_value);
  if (value.is<double>()) return value;
  if (const auto* missing = value.as<Undefined>()) throw Refused(*missing->why);
  throw Refused("bad operand type for unary +: '" + type_name(value) + "'");
}

Value rounded(const Value& value, std::int64_t digits) {
  if (const auto integer_value = integer_in(value)) {
    if (digits >= 0) return integer(*integer_value);
    if (digits < -18) return integer(0);
    const auto unit = static_cast<std::int64_t>(std::pow(10.0, static_cast<double>(-digits)));
    const std::int64_t below = floor_quotient(*integer_value, unit);
    const std::int64_t twice = 2 * (*integer_value - below * unit);
    const bool goes_up = twice > unit || (twice == unit && below % 2 != 0);
    return integer((below + (goes_up ? 1 : 0)) * unit);
  }
  const auto* real = value.as<double>();
  if (!real) throw Refused("type " + type_name(value) + " doesn't define __round__ method");
  if (!std::isfinite(*real) || digits > 323) return value;
  if (digits < -308) return number(std::copysign(0.0, *real));
  if (digits >= 0) return number(std::stod(printed(*real, 'f', static_cast<int>(digits))));
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return number(std::nearbyint(*real / unit) * unit);
}

}  // namespace llmtrain::jinja
