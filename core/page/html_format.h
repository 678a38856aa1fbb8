// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace llmtrain {

// What stands at a place of markup.
enum class HtmlPart { text, number, literal, markup };

// Follows markup up to a place in it. Only used at compile time: what it refuses, the compiler reports.
class HtmlPlace {
 public:
  constexpr void pass(std::string_view markup, std::size_t at) {
    const char letter = markup[at];
    switch (state_) {
      case State::content:
        if (letter == '<') state_ = State::tag;
        break;
      case State::tag:
        if (letter == '>') state_ = State::content;
        if (letter == '\'') throw "values of attributes stand in double quotes";
        if (letter != '"') break;
        state_ = State::value;
        attribute_ = attribute_before(markup, at);
        break;
      case State::value:
        if (letter == '"') state_ = State::tag;
        break;
    }
  }

  constexpr bool takes(HtmlPart part) const {
    switch (state_) {
      case State::content:
        return true;
      case State::tag:
        return false;
      case State::value:
        // Escaped text cannot end the value, but in these it would be read as a language of its own.
        if (part == HtmlPart::text)
          return attribute_ != "style" && attribute_ != "href" && attribute_ != "src" && !attribute_.starts_with("on");
        return part != HtmlPart::markup;
    }
    return false;
  }

  constexpr bool is_content() const { return state_ == State::content; }

 private:
  enum class State { content, tag, value };

  static constexpr std::string_view attribute_before(std::string_view markup, std::size_t quote) {
    if (quote == 0 || markup[quote - 1] != '=') throw "a quotation mark in a tag begins no value";
    const std::string_view before = markup.substr(0, quote - 1);
    return before.substr(before.find_last_of(" \n") + 1);
  }

  State state_ = State::content;
  std::string_view attribute_;  // whose value it is
};

// A literal that stands as a whole: it ends outside of tags.
constexpr void check_markup(std::string_view markup) {
  HtmlPlace place;
  for (std::size_t i = 0; i < markup.size(); ++i) place.pass(markup, i);
  if (!place.is_content()) throw "the markup ends inside of a tag";
}

// fmt's format of markup, with fields such as {}, {1} and {:.1f}: each part may stand where its field does.
template <std::size_t count>
constexpr void check_html_format(std::string_view format, const std::array<HtmlPart, count>& parts) {
  if (format.find("<script") != format.npos || format.find("<style") != format.npos)
    throw "a script or a style sheet is made of literals alone";
  HtmlPlace place;
  std::size_t next = 0;
  for (std::size_t i = 0; i < format.size(); ++i) {
    place.pass(format, i);
    const bool is_doubled = i + 1 < format.size() && format[i + 1] == format[i];
    if ((format[i] == '{' || format[i] == '}') && is_doubled) {
      ++i;
    } else if (format[i] == '{') {
      std::size_t index = 0;
      const bool is_numbered = format[i + 1] >= '0' && format[i + 1] <= '9';
      for (++i; format[i] >= '0' && format[i] <= '9'; ++i)
        index = 10 * index + static_cast<std::size_t>(format[i] - '0');
      if (!place.takes(parts.at(is_numbered ? index : next++))) throw "this part must not stand here";
      while (format[i] != '}')
        if (format[++i] == '{') throw "a field within a field";
    }
  }
  if (!place.is_content()) throw "the markup ends inside of a tag";
}

}  // namespace llmtrain
