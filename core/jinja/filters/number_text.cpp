// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/filters/number_text.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

// Without underscores, which may stand between two digits alone; empty where one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text, bool may_begin) {
  std::string result;
  const auto is_digit = [](char character) { return std::isalnum(static_cast<unsigned char>(character)) != 0; };
  for (std::size_t place = 0; place < text.size(); ++place) {
    if (text[place] != '_') {
      result += text[place];
      continue;
    }
    const bool follows = (place > 0 && is_digit(text[place - 1])) || (place == 0 && may_begin);
    if (!follows || place + 1 == text.size() || !is_digit(text[place + 1])) return std::nullopt;
  }
  return result;
}

std::int64_t base_of_prefix(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  const char letter = text[1] | 0x20;
  return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

std::string lower_ascii(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char each) { return each >= 'A' && each <= 'Z' ? each | 0x20 : each; });
  return result;
}

}  // namespace

std::optional<std::int64_t> read_integer(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  text = stripped(text);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const std::int64_t prefix = base_of_prefix(text);
  const bool has_prefix = prefix != 0 && (base == 0 || base == prefix);
  if (has_prefix) text.remove_prefix(2);
  const auto digits = without_underscores(text, has_prefix);
  if (!digits || digits->empty()) return std::nullopt;
  if (base == 0 && !has_prefix && (*digits)[0] == '0' && digits->find_first_not_of('0') != std::string::npos)
    return std::nullopt;
  const int used = static_cast<int>(has_prefix ? prefix : base == 0 ? 10 : base);
  std::int64_t value = 0;
  const std::string signed_digits = (is_negative ? "-" : "") + *digits;
  if ((*digits)[0] == '-') return std::nullopt;
  const auto [end, error] =
      std::from_chars(signed_digits.data(), signed_digits.data() + signed_digits.size(), value, used);
  if (end != signed_digits.data() + signed_digits.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) throw Refused("an integer is beyond 64 bits");
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<double> read_float(std::string_view text) {
  text = stripped(text);
  const auto plain = without_underscores(text, false);
  if (!plain || plain->empty()) return std::nullopt;
  std::string_view digits = *plain;
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.remove_prefix(1);
  const std::string name = lower_ascii(digits);
  const double sign = is_negative ? -1 : 1;
  if (name == "inf" || name == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (digits.empty() || std::string_view("0123456789.").find(digits[0]) == std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range)
    value = digits.find("e-") != std::string_view::npos || digits.find("E-") != std::string_view::npos
                ? 0
                : std::numeric_limits<double>::infinity();
  return sign * value;
}

}  // namespace llmtrain::jinja
