// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace llmtrain {

// Pages that need no network: style, script and drawings are in the file. They follow the reader's light or dark theme,
// and can be printed.

// The style sheet of all pages.
extern const std::string_view page_style;

struct HtmlPage {
  std::string title{};
  std::string sections{};   // HTML
  std::string footer{};     // text: where the figures come from
  std::string script{};     // without it everything is drawn, but nothing answers the pointer
  int refresh_seconds = 0;  // the browser loads the page again after this time; 0: never
};
std::string html_page(const HtmlPage& page);

// Text escaped for use between tags and in a quoted attribute: markup is escaped, and malformed UTF-8 and control
// characters become U+FFFD.
std::string html_text(std::string_view text);

// A table whose first `words` columns hold text, the others numbers; with 0 the last column holds text. Cells are HTML.
std::string html_table(int words, const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows);

// A figure of a page's headline. `detail` is HTML.
std::string html_card(std::string_view name, const std::string& value, const std::string& detail);

// A recipe's JSON, folded.
std::string recipe_details(const std::string& json);

// A length for SVG: at most two decimals, no trailing zeros.
std::string svg_number(double value);

}  // namespace llmtrain
