// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/html_text.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "core/base/printable.h"

namespace llmtrain {

std::string html_text(std::string_view text) {
  std::string escaped;
  // Names and descriptions come from recipes that may be somebody else's: markup in them must not take effect.
  for (const char letter : printable(text)) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
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
