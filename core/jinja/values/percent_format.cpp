// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/percent_format.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "core/jinja/values/arguments.h"
#include "core/jinja/values/format_spec.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

constexpr std::int64_t widest_field = 1 << 20;

struct Conversion {
  bool is_left = false, has_zeros = false, has_plus = false, has_space = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
};

// Python's int() of a number for %d.
std::int64_t whole_number(const Value& value, char type) {
  if (const auto* real = value.as<double>(); real && (type == 'd' || type == 'i' || type == 'u')) {
    if (!std::isfinite(*real) || std::abs(*real) >= 9.2e18) throw Refused("cannot convert float to integer");
    return static_cast<std::int64_t>(*real);
  }
  if (!value.is<bool>() && !value.is<std::int64_t>())
    throw Refused(fmt::format("%{} format: a real number is required, not {}", type, type_name(value)));
  return integer_of(value, "%");
}

double real_number(const Value& value) {
  if (const auto* real = value.as<double>()) return *real;
  if (!value.is<bool>() && !value.is<std::int64_t>()) throw Refused("must be real number, not " + type_name(value));
  return static_cast<double>(integer_of(value, "%"));
}

class PercentFormatter {
 public:
  PercentFormatter(std::string_view format, const Value& values) : format_(format), values_(values) {}

  std::string write() {
    while (place_ < format_.size()) {
      const std::size_t percent = std::min(format_.find('%', place_), format_.size());
      result_.add(format_.substr(place_, percent - place_));
      place_ = percent + 1;
      if (percent < format_.size()) write_conversion();
    }
    const auto* tuple = values_.as<Tuple>();
    const bool takes_none = values_.is<Dictionary>() || values_.is<List>() || values_.is<Undefined>();
    if (!takes_none && used_ < (tuple ? tuple->items->values.size() : 1))
      throw Refused("not all arguments converted during string formatting");
    return result_.take();
  }

 private:
  bool at(std::string_view characters) const {
    return place_ < format_.size() && characters.find(format_[place_]) != std::string_view::npos;
  }

  char take() {
    if (place_ >= format_.size()) throw Refused("incomplete format");
    return format_[place_++];
  }

  Value next_value() {
    if (named_) return *named_;
    const auto* tuple = values_.as<Tuple>();
    if (used_ >= (tuple ? tuple->items->values.size() : 1)) throw Refused("not enough arguments for format string");
    return tuple ? tuple->items->values[used_++] : (++used_, values_);
  }

  void read_name() {
    named_.reset();
    if (!at("(")) return;
    const auto* dictionary = values_.as<Dictionary>();
    if (!dictionary) throw Refused("format requires a mapping");
    const std::size_t end = format_.find(')', place_);
    if (end == std::string_view::npos) throw Refused("incomplete format key");
    const std::string name(format_.substr(place_ + 1, end - place_ - 1));
    const Value* found = find(*dictionary, text(name));
    if (!found) throw Refused("there is no key " + repr(name) + " for the format");
    named_ = *found;
    place_ = end + 1;
  }

  std::int64_t read_integer() {
    std::int64_t value = 0;
    if (at("*")) {
      take();
      value = integer_of(next_value(), "*");
    }
    while (at("0123456789") && value <= widest_field) value = value * 10 + (take() - '0');
    if (std::abs(value) > widest_field) throw Refused("a format's width or precision is too large");
    return value;
  }

  void write_conversion() {
    read_name();
    Conversion conversion;
    for (; at("-0+ #"); ++place_) {
      conversion.is_left |= at("-");
      conversion.has_zeros |= at("0");
      conversion.has_plus |= at("+");
      conversion.has_space |= at(" ");
      if (at("#")) throw Refused("the flag # of % formats is not supported");
    }
    conversion.width = read_integer();
    if (conversion.width < 0) conversion.is_left = true;
    conversion.width = std::abs(conversion.width);
    if (at(".")) {
      take();
      conversion.precision = std::max<std::int64_t>(read_integer(), 0);
    }
    while (at("hlL")) take();
    write_value(conversion, take());
  }

  void write_value(const Conversion& conversion, char type) {
    if (type == '%') {
      result_.add("%");
    } else if (type == 's' || type == 'r') {
      std::string shown = type == 's' ? plain_text(next_value()) : repr(next_value());
      if (conversion.precision >= 0)
        shown = encoded(decoded(shown).substr(0, static_cast<std::size_t>(conversion.precision)));
      result_.add(aligned(shown, conversion.width, conversion.is_left ? '<' : '>'));
    } else if (type == 'c') {
      result_.add(aligned(character_of(next_value()), conversion.width, conversion.is_left ? '<' : '>'));
    } else if (std::string_view("diuoxX").find(type) != std::string_view::npos) {
      write_integer(conversion, whole_number(next_value(), type), type);
    } else if (std::string_view("eEfFgG").find(type) != std::string_view::npos) {
      const double real = real_number(next_value());
      const int precision = conversion.precision < 0 ? 6 : static_cast<int>(conversion.precision);
      write_number(conversion, std::signbit(real), printed(std::abs(real), type, precision));
    } else {
      throw Refused(fmt::format("unsupported format character '{}'", type));
    }
  }

  static std::string character_of(const Value& value) {
    if (const auto* given = text_of(value)) {
      if (character_count(*given) == 1) return *given;
    } else if (value.is<bool>() || value.is<std::int64_t>()) {
      const std::int64_t code = integer_of(value, "%c");
      const auto character = static_cast<char32_t>(code);
      if (code >= 0 && code < 0x110000 && (code < 0xD800 || code > 0xDFFF)) return encoded({&character, 1});
    }
    throw Refused("%c requires int or char");
  }

  void write_integer(const Conversion& conversion, std::int64_t value, char type) {
    const auto size = value < 0 ? -static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    std::string digits = type == 'o'   ? fmt::format("{:o}", size)
                         : type == 'x' ? fmt::format("{:x}", size)
                         : type == 'X' ? fmt::format("{:X}", size)
                                       : fmt::format("{}", size);
    write_number(conversion, value < 0, aligned(digits, conversion.precision, '>', "0"));
  }

  void write_number(const Conversion& conversion, bool is_negative, const std::string& digits) {
    const std::string sign = is_negative ? "-" : conversion.has_plus ? "+" : conversion.has_space ? " " : "";
    if (conversion.has_zeros && !conversion.is_left) {
      const auto width = conversion.width - static_cast<std::int64_t>(sign.size());
      result_.add(sign + aligned(digits, width, '>', "0"));
    } else {
      result_.add(aligned(sign + digits, conversion.width, conversion.is_left ? '<' : '>'));
    }
  }

  std::string_view format_;
  const Value& values_;
  std::size_t place_ = 0;
  std::size_t used_ = 0;
  std::optional<Value> named_;
  TextBuilder result_;
};

}  // namespace

std::string percent_formatted(std::string_view format, const Value& values) {
  return PercentFormatter(format, values).write();
}

}  // namespace llmtrain::jinja
