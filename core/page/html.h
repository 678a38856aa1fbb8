// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/page/html_format.h"

namespace llmtrain {

// Names and descriptions come from recipes, profiles and files that may be somebody else's: none of them may become
// markup. So a page is made of Html, which is made of literals in the sources and of text that has been escaped, and
// of nothing else: a plain string where markup is asked for does not compile.

// Markup as it is written in a source, known at compile time.
class MarkupLiteral {
 public:
  consteval MarkupLiteral(const char* markup) : text_(markup) { check_markup(text_); }

  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// Whole elements and text of a page.
class Html {
 public:
  Html() = default;
  explicit Html(MarkupLiteral markup) : text_(markup.text()) {}

  Html& operator+=(const Html& other) {
    text_ += other.text_;
    return *this;
  }
  Html& operator+=(MarkupLiteral literal) {
    text_ += literal.text();
    return *this;
  }
  friend Html operator+(Html first, const Html& second) { return std::move(first += second); }
  friend Html operator+(Html first, MarkupLiteral second) { return std::move(first += second); }
  friend Html operator+(MarkupLiteral first, const Html& second) { return Html(first) += second; }

  bool empty() const { return text_.empty(); }
  std::string_view text() const { return text_; }

 private:
  template <class... Arguments>
  friend class HtmlFormat;
  friend Html json_data(std::string_view id, std::string_view json);

  std::string text_;
};

// Text escaped for use between tags and in a quoted attribute: markup is escaped, and malformed UTF-8 and control
// characters become U+FFFD.
std::string escaped_text(std::string_view text);

template <class Argument>
constexpr HtmlPart html_part() {
  using Type = std::remove_cvref_t<Argument>;
  if constexpr (std::is_same_v<Type, Html>) {
    return HtmlPart::markup;
  } else if constexpr (std::is_same_v<Type, MarkupLiteral>) {
    return HtmlPart::literal;
  } else if constexpr (std::is_convertible_v<const Type&, std::string_view> || std::is_same_v<Type, char>) {
    return HtmlPart::text;
  } else {
    static_assert(std::is_arithmetic_v<Type> && !std::is_same_v<Type, bool>, "is neither text nor a number nor markup");
    return HtmlPart::number;
  }
}

template <class Argument>
auto html_argument(const Argument& argument) {
  if constexpr (html_part<Argument>() == HtmlPart::number) {
    return argument;
  } else if constexpr (std::is_same_v<Argument, char>) {
    return escaped_text({&argument, 1});
  } else if constexpr (html_part<Argument>() == HtmlPart::text) {
    return escaped_text(argument);
  } else {
    return argument.text();
  }
}

// What html() takes first. Where it does not compile, a part must not stand where its field is: markup only between
// tags, text there and in the quoted values of attributes that are no language of their own, literals and numbers in
// those, too.
template <class... Arguments>
class HtmlFormat {
 public:
  consteval HtmlFormat(const char* format) : format_(format) {
    check_html_format(format, std::array<HtmlPart, sizeof...(Arguments)>{html_part<Arguments>()...});
  }

  Html operator()(const Arguments&... arguments) const {
    Html html;
    html.text_ = joined(html_argument(arguments)...);
    return html;
  }

 private:
  template <class Argument>
  using Converted = decltype(html_argument(std::declval<const Argument&>()));

  std::string joined(const Converted<Arguments>&... converted) const {
    return fmt::vformat(format_, fmt::make_format_args(converted...));
  }

  fmt::format_string<Converted<Arguments>...> format_;
};

// Markup with text, numbers and other markup in its fields, as fmt formats them; text is escaped.
template <class... Arguments>
Html html(HtmlFormat<std::type_identity_t<Arguments>...> format, const Arguments&... arguments) {
  return format(arguments...);
}

// JSON in a page, for its script, which finds it by its id.
Html json_data(std::string_view id, std::string_view json);

// A length for SVG: at most two decimals, no trailing zeros.
std::string svg_number(double value);

}  // namespace llmtrain
