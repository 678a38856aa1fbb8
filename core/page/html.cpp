// SPDX-License-Identifier: Apache-2.0
#include "core/page/html.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/printable.h"

namespace llmtrain {
namespace {

struct Escape {
  char letter = 0;
  std::string_view text;
};
constexpr std::array<Escape, 5> escapes{
    {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}}};

}  // namespace

std::string escaped_text(std::string_view text) {
  std::string escaped;
  for (const char letter : printable(text)) {
    const auto escape = std::ranges::find(escapes, letter, &Escape::letter);
    escaped += escape == escapes.end() ? std::string_view(&letter, 1) : escape->text;
  }
  return escaped;
}

Html json_data(std::string_view id, std::string_view json) {
  Html data;
  data.text_ = "<script type=\"application/json\" id=\"" + escaped_text(id) + "\">";
  // A page's script ends at the first of its end tags, and begins another one at "<!--". JSON has this letter in
  // strings alone.
  for (const char letter : json)
    data.text_ += letter == '<' ? std::string_view("\\u003c") : std::string_view(&letter, 1);
  data.text_ += "</script>";
  return data;
}

std::string svg_number(double value) {
  // Hundredths of a pixel are invisible, and every digit counts in a page with thousands of coordinates.
  const auto hundredths = std::llround(value * 100);
  if (hundredths % 100 == 0) return std::to_string(hundredths / 100);
  std::string text = fmt::format("{:.2f}", static_cast<double>(hundredths) / 100);
  if (text.back() == '0') text.pop_back();
  return text;
}

}  // namespace llmtrain
