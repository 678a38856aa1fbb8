// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/format_spec.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

constexpr std::int64_t widest = 1 << 20;

struct Spec {
  std::string fill = " ";
  char align = 0;  // 0: as the value's type has it
  char sign = '-';
  bool has_sign = false;
  std::int64_t width = 0;
  bool has_commas = false;
  int precision = -1;
  char type = 0;
};

bool is_align(char character) { return std::string_view("<>=^").find(character) != std::string_view::npos; }

class SpecReader {
 public:
  explicit SpecReader(std::string_view spec) : spec_(spec) {}

  Spec read() {
    read_alignment();
    if (at("+- ")) {
      result_.has_sign = true;
      result_.sign = take();
    }
    if (at("#z")) refuse();
    if (at("0")) {
      take();
      if (result_.align == 0) {
        result_.fill = "0";
        result_.align = '=';
      }
    }
    result_.width = integer(widest);
    if (at(",")) result_.has_commas = take() != 0;
    if (at("_")) refuse();
    if (at(".")) {
      take();
      if (!at("0123456789")) refuse();
      result_.precision = static_cast<int>(integer(1000));
    }
    if (place_ < spec_.size()) result_.type = take();
    if (place_ < spec_.size()) refuse();
    return result_;
  }

 private:
  [[noreturn]] void refuse() const { throw Refused("the format specification " + repr(spec_) + " is not supported"); }

  bool at(std::string_view characters) const {
    return place_ < spec_.size() && characters.find(spec_[place_]) != std::string_view::npos;
  }

  char take() { return spec_[place_++]; }

  void read_alignment() {
    if (spec_.empty()) return;
    std::size_t behind = 0;
    next_character(spec_, behind);
    if (behind < spec_.size() && is_align(spec_[behind])) {
      result_.fill = spec_.substr(0, behind);
      result_.align = spec_[behind];
      place_ = behind + 1;
    } else if (is_align(spec_[0])) {
      result_.align = take();
    }
  }

  std::int64_t integer(std::int64_t most) {
    std::int64_t value = 0;
    while (at("0123456789")) {
      value = value * 10 + (take() - '0');
      if (value > most) throw Refused("a format's width or precision is too large");
    }
    return value;
  }

  std::string_view spec_;
  std::size_t place_ = 0;
  Spec result_;
};

std::string with_commas(const std::string& digits) {
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string result = digits;
  for (std::size_t place = whole; place > 3; place -= 3) result.insert(place - 3, ",");
  return result;
}

// `digits` have no sign.
std::string signed_and_aligned(const Spec& spec, bool is_negative, std::string digits) {
  if (spec.has_commas) digits = with_commas(digits);
  std::string sign = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.align != '=') return aligned(sign + digits, spec.width, spec.align ? spec.align : '>', spec.fill);
  if (spec.has_commas && spec.fill == "0") throw Refused("a format with commas and leading zeros is not supported");
  return sign + aligned(digits, spec.width - static_cast<std::int64_t>(sign.size()), '>', spec.fill);
}

std::string formatted_float(const Spec& spec, double number) {
  const double size = std::abs(number);
  std::string digits;
  if (spec.type == 0 && spec.precision < 0) {
    digits = float_text(size);
  } else if (spec.type == '%') {
    digits = printed(size * 100, 'f', spec.precision < 0 ? 6 : spec.precision) + "%";
  } else if (std::string_view("eEfFgG").find(spec.type) != std::string_view::npos && spec.type != 0) {
    digits = printed(size, spec.type, spec.precision < 0 ? 6 : spec.precision);
  } else {
    throw Refused(fmt::format("the format code '{}' is not supported for 'float'", spec.type ? spec.type : ' '));
  }
  return signed_and_aligned(spec, std::signbit(number), digits);
}

std::string formatted_integer(const Spec& spec, std::int64_t integer) {
  if (std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos && spec.type != 0)
    return formatted_float(spec, static_cast<double>(integer));
  if (spec.precision >= 0) throw Refused("Precision not allowed in integer format specifier");
  const auto size = integer < 0 ? -static_cast<std::uint64_t>(integer) : static_cast<std::uint64_t>(integer);
  std::string digits;
  switch (spec.type) {
    case 0:
    case 'd':
      digits = fmt::format("{}", size);
      break;
    case 'b':
      digits = fmt::format("{:b}", size);
      break;
    case 'o':
      digits = fmt::format("{:o}", size);
      break;
    case 'x':
      digits = fmt::format("{:x}", size);
      break;
    case 'X':
      digits = fmt::format("{:X}", size);
      break;
    default:
      throw Refused(fmt::format("Unknown format code '{}' for object of type 'int'", spec.type));
  }
  if (spec.has_commas && spec.type != 0 && spec.type != 'd') throw Refused("Cannot specify ',' with this format code");
  return signed_and_aligned(spec, integer < 0, digits);
}

std::string formatted_text(const Spec& spec, const std::string& bytes) {
  if (spec.type != 0 && spec.type != 's') {
    throw Refused(fmt::format("Unknown format code '{}' for object of type 'str'", spec.type));
  }
  if (spec.has_sign || spec.has_commas || (spec.align == '=' && spec.fill != "0"))
    throw Refused("the format specification is not one for a text");
  std::string shown = bytes;
  if (spec.precision >= 0) shown = encoded(decoded(bytes).substr(0, static_cast<std::size_t>(spec.precision)));
  return aligned(shown, spec.width, spec.align == 0 || spec.align == '=' ? '<' : spec.align, spec.fill);
}

}  // namespace

std::string printed(double number, char type, int precision) {
  if (std::isnan(number)) return type == 'E' || type == 'F' || type == 'G' ? "NAN" : "nan";
  const char format[] = {'%', '.', '*', type, 0};
  const int size = std::snprintf(nullptr, 0, format, precision, number);
  std::string result(static_cast<std::size_t>(size) + 1, '\0');
  std::snprintf(result.data(), result.size(), format, precision, number);
  result.pop_back();
  return result;
}

std::string aligned(std::string_view bytes, std::int64_t width, char align, std::string_view fill) {
  const auto missing = width - static_cast<std::int64_t>(character_count(bytes));
  if (missing <= 0) return std::string(bytes);
  const std::int64_t before = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  TextBuilder result;
  result.add(fill, static_cast<std::size_t>(before));
  result.add(bytes);
  result.add(fill, static_cast<std::size_t>(missing - before));
  return result.take();
}

std::string formatted(const Value& value, std::string_view spec) {
  if (spec.empty()) return str(value);
  const Spec read = SpecReader(spec).read();
  if (text_of(value)) return formatted_text(read, plain_text(value));
  if (const auto* flag = value.as<bool>()) return formatted_integer(read, *flag ? 1 : 0);
  if (const auto* integer = value.as<std::int64_t>()) return formatted_integer(read, *integer);
  if (const auto* number = value.as<double>()) return formatted_float(read, *number);
  throw Refused("unsupported format string passed to " + type_name(value) + ".__format__");
}

}  // namespace llmtrain::jinja
