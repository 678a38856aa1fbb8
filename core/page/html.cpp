// SPDX-License-Identifier: Apache-2.0
#include "core/page/html.h"

#include <spdlog/fmt/fmt.h>

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

std::string row(std::string_view tag, const std::vector<std::string>& cells) {
  std::string text = "<tr>";
  for (const std::string& cell : cells) text += fmt::format("<{0}>{1}</{0}>", tag, cell);
  return text + "</tr>\n";
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  // Names and descriptions come from recipes that may be somebody else's: markup in them must not take effect.
  for (const char letter : printable(text)) {
    const auto escape = std::ranges::find(escapes, letter, &Escape::letter);
    escaped += escape == escapes.end() ? std::string_view(&letter, 1) : escape->text;
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

std::string html_page(const HtmlPage& page) {
  const std::string refresh =
      page.refresh_seconds > 0 ? fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">", page.refresh_seconds) : "";
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">{}"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title>\n<style>{}"
      "</style></head>\n<body>\n{}<footer>{}</footer>\n"
      "<div id=\"tip\" role=\"status\" hidden></div>\n<script>{}</script>\n</body></html>\n",
      refresh, html_text(page.title), page_style, page.sections, html_text(page.footer), page.script);
}

std::string html_table(int words, const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows) {
  // The style sheet aligns the columns by this class.
  std::string text =
      fmt::format("<div class=\"scroll\"><table class=\"words-{}\"><thead>{}</thead><tbody>\n", words, row("th", head));
  for (const auto& cells : rows) text += row("td", cells);
  return text + "</tbody></table></div>";
}

std::string html_card(std::string_view name, const std::string& value, const std::string& detail) {
  return fmt::format("<div class=\"card\"><h3>{}</h3><p class=\"value\">{}</p><p>{}</p></div>", name, value, detail);
}

std::string recipe_details(const std::string& json) {
  return "<section><h2>Recipe</h2><details><summary>Every key, including those filled in by "
         "defaults and presets</summary><pre>" +
         html_text(json) + "</pre></details></section>\n";
}

}  // namespace llmtrain
