// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/syntax/tokens.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/printable.h"
#include "core/jinja/syntax/literals.h"
#include "core/jinja/syntax/template_error.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

// As Jinja reads a template: every line ends with "\n", and the last one without it.
std::string with_plain_newlines(std::string_view source) {
  std::string result;
  for (std::size_t place = 0; place < source.size(); ++place) {
    if (source[place] != '\r') {
      result += source[place];
    } else {
      result += '\n';
      if (place + 1 < source.size() && source[place + 1] == '\n') ++place;
    }
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

bool is_name_character(char character) {
  const auto byte = static_cast<unsigned char>(character);
  return byte >= 0x80 || byte == '_' || (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

  std::vector<Token> read() {
    while (place_ < source_.size()) read_data_and_tag();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const { throw TemplateError(line_, reason); }

  std::string_view rest() const { return std::string_view(source_).substr(place_); }

  void add(TokenKind kind, std::string text, Value value = {}) {
    tokens_.push_back({kind, line_, std::move(text), std::move(value)});
  }

  // Goes `count` bytes on.
  void pass(std::size_t count) {
    const auto passed = rest().substr(0, count);
    line_ += static_cast<int>(std::ranges::count(passed, '\n'));
    if (!passed.empty()) begins_line_ = passed.back() == '\n';
    place_ += passed.size();
  }

  std::size_t space_length(std::size_t from) const {
    const auto text = std::string_view(source_).substr(std::min(from, source_.size()));
    return text.size() - stripped(text, std::nullopt, true, false).size();
  }

  // The data before a tag, cut as `sign` says: "-" takes all white space, and without "+" a block or comment takes that
  // between the line's begin and itself.
  void add_data(std::string_view data, char sign, bool is_expression) {
    std::string_view kept = data;
    if (sign == '-') {
      kept = stripped(data, std::nullopt, false, true);
    } else if (sign != '+' && !is_expression) {
      const std::size_t newline = data.rfind('\n');
      const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line > 0 || begins_line_) && stripped(data.substr(line)).empty()) kept = data.substr(0, line);
    }
    if (!kept.empty()) add(TokenKind::data, std::string(kept));
  }

  static char sign_at(std::string_view text, std::size_t place) {
    return place < text.size() && (text[place] == '-' || text[place] == '+') ? text[place] : 0;
  }

  void read_data_and_tag() {
    std::size_t open = 0;
    for (open = source_.find('{', place_); open != std::string::npos; open = source_.find('{', open + 1)) {
      if (open + 1 < source_.size() && std::string_view("{%#").find(source_[open + 1]) != std::string_view::npos) break;
    }
    if (open == std::string::npos) {
      add(TokenKind::data, source_.substr(place_));
      return pass(rest().size());
    }
    const char kind = source_[open + 1], sign = sign_at(source_, open + 2);
    add_data(std::string_view(source_).substr(place_, open - place_), sign, kind == '{');
    const std::size_t raw = kind == '%' ? raw_length(open, sign) : 0;
    pass(open - place_ + (raw ? raw : 2 + (sign ? 1 : 0)));
    if (raw) {
      read_raw();
    } else if (kind == '#') {
      pass_comment();
    } else {
      read_code(kind == '{');
    }
  }

  // Bytes of a tag that begins a raw block, or 0.
  std::size_t raw_length(std::size_t open, char sign) const {
    std::size_t place = open + 2 + (sign ? 1 : 0);
    place += space_length(place);
    if (source_.compare(place, 3, "raw") != 0) return 0;
    place += 3;
    place += space_length(place);
    if (source_.compare(place, 2, "%}") == 0) return place + 2 - open;
    if (source_.compare(place, 3, "-%}") != 0) return 0;
    return place + 3 + space_length(place + 3) - open;
  }

  // Bytes of a block's or comment's end with the white space that goes with it, or 0; `mark` is % or #.
  std::size_t end_length(std::size_t place, char mark) const {
    const char sign = sign_at(source_, place);
    const std::size_t begin = place + (sign ? 1 : 0);
    if (begin + 1 >= source_.size() || source_[begin] != mark || source_[begin + 1] != '}') return 0;
    const std::size_t end = begin + 2;
    if (sign == '-') return end - place + space_length(end);
    return end - place + (sign == 0 && end < source_.size() && source_[end] == '\n' ? 1 : 0);
  }

  void read_raw() {
    for (std::size_t open = source_.find("{%", place_); open != std::string::npos;
         open = source_.find("{%", open + 1)) {
      const char sign = sign_at(source_, open + 2);
      std::size_t place = open + 2 + (sign ? 1 : 0);
      place += space_length(place);
      if (source_.compare(place, 6, "endraw") != 0) continue;
      place += 6;
      place += space_length(place);
      const std::size_t end = end_length(place, '%');
      if (end == 0) continue;
      add_data(std::string_view(source_).substr(place_, open - place_), sign, false);
      return pass(place + end - place_);
    }
    refuse("Missing end of raw directive");
  }

  void pass_comment() {
    for (std::size_t place = place_; place < source_.size(); ++place) {
      const std::size_t end = end_length(place, '#');
      if (end) return pass(place + end - place_);
    }
    refuse("Missing end of comment tag");
  }

  void read_code(bool is_expression) {
    add(is_expression ? TokenKind::expression_begin : TokenKind::block_begin, "");
    std::string open_brackets;
    for (;;) {
      if (open_brackets.empty()) {
        const std::size_t end = is_expression ? expression_end_length() : end_length(place_, '%');
        if (end) {
          add(is_expression ? TokenKind::expression_end : TokenKind::block_end, "");
          return pass(end);
        }
      }
      pass(space_length(place_));
      if (place_ >= source_.size()) return;  // the parser says what is missing
      if (open_brackets.empty() && (is_expression ? expression_end_length() : end_length(place_, '%'))) continue;
      read_code_token(open_brackets);
    }
  }

  std::size_t expression_end_length() const {
    if (rest().starts_with("}}")) return 2;
    return rest().starts_with("-}}") ? 3 + space_length(place_ + 3) : 0;
  }

  void read_code_token(std::string& open_brackets) {
    bool is_float = false;
    if (const std::size_t length = number_length(source_, place_, is_float)) {
      add_literal(length, [&](std::string_view digits) { return number_value(digits, is_float); });
    } else if (is_name_character(rest()[0])) {
      const auto* end = std::find_if_not(rest().begin(), rest().end(), is_name_character);
      const auto size = static_cast<std::size_t>(end - rest().begin());
      add(TokenKind::name, std::string(rest().substr(0, size)));
      pass(size);
    } else if (const std::size_t quoted = quoted_length()) {
      add_literal(quoted, [](std::string_view bytes) { return text(unescaped(bytes.substr(1, bytes.size() - 2))); });
    } else {
      read_sign(open_brackets);
    }
  }

  template <typename Read>
  void add_literal(std::size_t length, const Read& read) {
    try {
      add(TokenKind::literal, std::string(rest().substr(0, length)), read(rest().substr(0, length)));
    } catch (const Refused& refused) {
      refuse(refused.what());
    }
    pass(length);
  }

  // Bytes of a text in quotes, or 0.
  std::size_t quoted_length() const {
    const char quote = rest()[0];
    if (quote != '\'' && quote != '"') return 0;
    for (std::size_t place = 1; place < rest().size(); ++place) {
      if (rest()[place] == '\\') {
        ++place;
      } else if (rest()[place] == quote) {
        return place + 1;
      }
    }
    return 0;
  }

  void read_sign(std::string& open_brackets) {
    static constexpr std::string_view signs[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                                 "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* sign = std::ranges::find_if(signs, [&](std::string_view each) { return rest().starts_with(each); });
    if (sign == std::end(signs)) {
      std::size_t end = place_;
      next_character(source_, end);
      refuse("unexpected char " + repr(std::string_view(source_).substr(place_, end - place_)));
    }
    constexpr std::string_view opening = "([{", closing = ")]}";
    if (const std::size_t place = opening.find(*sign); place != std::string_view::npos) {
      open_brackets += closing[place];
    } else if (closing.find(*sign) != std::string_view::npos) {
      if (open_brackets.empty()) refuse("unexpected '" + std::string(*sign) + "'");
      if (open_brackets.back() != (*sign)[0]) {
        refuse("unexpected '" + std::string(*sign) + "', expected '" + open_brackets.back() + "'");
      }
      open_brackets.pop_back();
    }
    add(TokenKind::sign, std::string(*sign));
    pass(sign->size());
  }

  std::string source_;
  std::size_t place_ = 0;
  int line_ = 1;
  bool begins_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  if (!is_utf8(source)) throw TemplateError(1, "the template is not UTF-8");
  return Lexer(source).read();
}

}  // namespace llmtrain::jinja
