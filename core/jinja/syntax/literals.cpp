// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/syntax/literals.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

bool is_digit_of(char character, int base) {
  if (base == 16 && ((character >= 'a' && character <= 'f') || (character >= 'A' && character <= 'F'))) return true;
  return character >= '0' && character < '0' + std::min(base, 10);
}

// Digits with single underscores between them; `may_begin_with_underscore` as behind "0x".
std::size_t digits_length(std::string_view text, int base, bool may_begin_with_underscore = false) {
  std::size_t length = 0;
  while (length < text.size()) {
    const bool skips = text[length] == '_' && (length > 0 || may_begin_with_underscore);
    const std::size_t digit = length + (skips ? 1 : 0);
    if (digit >= text.size() || !is_digit_of(text[digit], base)) break;
    length = digit + 1;
  }
  return length;
}

int base_of(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 10;
  const char letter = text[1] | 0x20;
  return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
}

std::size_t exponent_length(std::string_view text) {
  if (text.empty() || (text[0] | 0x20) != 'e') return 0;
  const std::size_t sign = text.size() > 1 && (text[1] == '+' || text[1] == '-') ? 1 : 0;
  const std::size_t digits = digits_length(text.substr(1 + sign), 10);
  return digits ? 1 + sign + digits : 0;
}

std::size_t float_length(std::string_view text) {
  const std::size_t whole = digits_length(text, 10);
  if (whole == 0) return 0;
  std::size_t length = whole;
  if (length < text.size() && text[length] == '.') {
    const std::size_t digits = digits_length(text.substr(length + 1), 10);
    if (digits) length += 1 + digits;
  }
  length += exponent_length(text.substr(length));
  return length > whole ? length : 0;
}

std::size_t integer_length(std::string_view text) {
  const int base = base_of(text);
  if (base != 10) {
    const std::size_t digits = digits_length(text.substr(2), base, true);
    if (digits) return 2 + digits;
  }
  if (text[0] != '0') return digits_length(text, 10);
  std::size_t length = 1;  // a zero is followed by zeros alone
  while (length < text.size()) {
    const std::size_t digit = length + (text[length] == '_' ? 1 : 0);
    if (digit >= text.size() || text[digit] != '0') break;
    length = digit + 1;
  }
  return length;
}

class Unescaper {
 public:
  explicit Unescaper(std::string_view inner) : inner_(inner) {}

  std::string write() {
    while (place_ < inner_.size()) {
      const char character = inner_[place_++];
      if (character != '\\' || place_ == inner_.size()) {
        result_ += character;
      } else {
        write_escape(inner_[place_++]);
      }
    }
    return std::move(result_);
  }

 private:
  void write_escape(char letter) {
    constexpr std::string_view letters = "\\'\"abfnrtv", meanings = "\\'\"\a\b\f\n\r\t\v";
    const std::size_t place = letters.find(letter);
    if (place != std::string_view::npos) {
      result_ += meanings[place];
    } else if (letter == 'x') {
      write_code(2);
    } else if (letter == 'u') {
      write_code(4);
    } else if (letter == 'U') {
      write_code(8);
    } else if (letter == 'N') {
      throw Refused("characters by their names (\\N) are not supported");
    } else if (is_digit_of(letter, 8)) {
      write_octal(letter);
    } else if (letter != '\n') {  // which continues the text on the next line
      result_ += {'\\', letter};
    }
  }

  void write_code(std::size_t digits) {
    char32_t code = 0;
    for (std::size_t index = 0; index < digits; ++index, ++place_) {
      if (place_ >= inner_.size() || !is_digit_of(inner_[place_], 16))
        throw Refused("an escape of a text is cut short");
      const char digit = inner_[place_];
      code = code * 16 + static_cast<char32_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) throw Refused("an escape of a text is no character");
    append(result_, code);
  }

  void write_octal(char first) {
    char32_t code = static_cast<char32_t>(first - '0');
    for (int index = 0; index < 2 && place_ < inner_.size() && is_digit_of(inner_[place_], 8); ++index)
      code = code * 8 + static_cast<char32_t>(inner_[place_++] - '0');
    append(result_, code);
  }

  std::string_view inner_;
  std::size_t place_ = 0;
  std::string result_;
};

}  // namespace

std::size_t number_length(std::string_view source, std::size_t place, bool& is_float) {
  const std::string_view text = source.substr(place);
  if (text.empty() || !is_digit_of(text[0], 10)) return 0;
  const std::size_t length = place > 0 && source[place - 1] == '.' ? 0 : float_length(text);
  is_float = length > 0;
  return is_float ? length : integer_length(text);
}

Value number_value(std::string_view digits, bool is_float) {
  std::string plain(digits);
  std::erase(plain, '_');
  if (is_float) {
    double value = 0;
    const auto result = std::from_chars(plain.data(), plain.data() + plain.size(), value);
    if (result.ec == std::errc::result_out_of_range)
      value = plain.find('-') == std::string::npos ? std::numeric_limits<double>::infinity() : 0;
    return number(value);
  }
  const int base = base_of(plain);
  const std::size_t prefix = base == 10 ? 0 : 2;
  std::int64_t value = 0;
  const auto result = std::from_chars(plain.data() + prefix, plain.data() + plain.size(), value, base);
  if (result.ec != std::errc()) throw Refused("an integer is beyond 64 bits");
  return integer(value);
}

std::string unescaped(std::string_view inner) { return Unescaper(inner).write(); }

}  // namespace llmtrain::jinja
