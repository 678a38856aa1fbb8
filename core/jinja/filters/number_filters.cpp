// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/jinja/filters/filter_functions.h"
#include "core/jinja/filters/number_text.h"
#include "core/jinja/values/arithmetic.h"
#include "core/jinja/values/comparison.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja::filter {
namespace {

bool is_number(const Value& value) { return value.is<bool>() || value.is<std::int64_t>() || value.is<double>(); }

// Empty for what Python's int() refuses by TypeError or ValueError, or by OverflowError, which the filter lets pass.
std::optional<Value> whole(double value, bool lets_infinity_pass) {
  if (std::isinf(value) && lets_infinity_pass) throw Refused("cannot convert float infinity to integer");
  if (!std::isfinite(value)) return std::nullopt;
  if (std::abs(value) >= 9.2e18) throw Refused("an integer is beyond 64 bits");
  return integer(static_cast<std::int64_t>(value));
}

double real_of(const Value& value) {
  if (const auto* real = value.as<double>()) return *real;
  return static_cast<double>(integer_of(value, "round()"));
}

}  // namespace

Value abs(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("abs", arguments, {}, 0, false);
  if (!is_number(input)) throw Refused("bad operand type for abs(): '" + type_name(input) + "'");
  if (const auto* real = input.as<double>()) return number(std::abs(*real));
  return is_less(input, integer(0)) ? negated(input) : unchanged(input);
}

Value int_(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("int", arguments, {"default", "base"});
  if (const auto* missing = input.as<Undefined>()) throw Refused(*missing->why);
  const Value otherwise = bound.get(0) ? *bound.get(0) : integer(0);
  if (const auto* given = text_of(input)) {
    if (const auto value = read_integer(*given, bound.integer(1, 10))) return integer(*value);
    const auto real = read_float(*given);
    return real ? whole(*real, false).value_or(otherwise) : otherwise;
  }
  if (const auto* real = input.as<double>()) return whole(*real, true).value_or(otherwise);
  return is_number(input) ? unchanged(input) : otherwise;
}

Value float_(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("float", arguments, {"default"});
  if (const auto* missing = input.as<Undefined>()) throw Refused(*missing->why);
  const Value otherwise = bound.get(0) ? *bound.get(0) : number(0);
  if (const auto* given = text_of(input)) {
    const auto real = read_float(*given);
    return real ? number(*real) : otherwise;
  }
  return is_number(input) ? number(real_of(input)) : otherwise;
}

Value round(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("round", arguments, {"precision", "method"});
  const std::int64_t precision = bound.integer(0, 0);
  const std::string method = bound.text(1, "common");
  if (method != "common" && method != "ceil" && method != "floor")
    throw Refused("method must be common, ceil or floor");
  if (method == "common") return rounded(input, precision);
  const Value unit = calculate(Operator::power, integer(10), integer(precision));
  const Value scaled = calculate(Operator::multiply, input, unit);
  if (!is_number(scaled)) throw Refused("must be real number, not " + type_name(scaled));
  const double real = method == "ceil" ? std::ceil(real_of(scaled)) : std::floor(real_of(scaled));
  const auto result = whole(real, true);
  if (!result) throw Refused("cannot convert float NaN to integer");
  return calculate(Operator::divide, *result, unit);
}

}  // namespace llmtrain::jinja::filter
