// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/page/html.h"

namespace llmtrain {

// Pages that need no network: style, script and drawings are in the file. They follow the reader's light or dark theme,
// and can be printed.

// The style sheet of all pages.
extern const MarkupLiteral page_style;

struct HtmlPage {
  std::string title{};
  Html sections{};
  std::string footer{};                  // where the figures come from
  std::vector<MarkupLiteral> scripts{};  // without them everything is drawn, but nothing answers the pointer
  int refresh_seconds = 0;               // the browser loads the page again after this time; 0: never
};
// The text of the file.
std::string html_page(const HtmlPage& page);

// A table whose first `words` columns hold text, the others numbers; with 0 the last column holds text.
Html html_table(int words, const std::vector<Html>& head, const std::vector<std::vector<Html>>& rows);

// Cells of plain text.
std::vector<Html> text_cells(const std::vector<std::string>& texts);

// A figure of a page's headline.
Html html_card(std::string_view name, std::string_view value, std::string_view detail);

// A recipe's JSON, folded.
Html recipe_details(std::string_view json);

}  // namespace llmtrain
