// SPDX-License-Identifier: Apache-2.0
#include "core/page/html_page.h"

namespace llmtrain {

std::string html_page(const HtmlPage& page) {
  Html head;
  if (page.refresh_seconds > 0) head = html("<meta http-equiv=\"refresh\" content=\"{}\">", page.refresh_seconds);
  head +=
      html("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title>\n", page.title);
  Html text = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">" + head;
  text += "<style>" + Html(page_style) + "</style></head>\n<body>\n";
  text += page.sections;
  text += html("<footer>{}</footer>\n<div id=\"tip\" role=\"status\" hidden></div>\n", page.footer);
  text += "<script>";
  for (const MarkupLiteral& script : page.scripts) text += script;
  return std::string((text + "</script>\n</body></html>\n").text());
}

Html html_table(int words, const std::vector<Html>& head, const std::vector<std::vector<Html>>& rows) {
  // The style sheet aligns the columns by this class.
  Html text = html("<div class=\"scroll\"><table class=\"words-{}\"><thead><tr>", words);
  for (const Html& cell : head) text += html("<th>{}</th>", cell);
  text += "</tr>\n</thead><tbody>\n";
  for (const std::vector<Html>& cells : rows) {
    text += "<tr>";
    for (const Html& cell : cells) text += html("<td>{}</td>", cell);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>";
}

std::vector<Html> text_cells(const std::vector<std::string>& texts) {
  std::vector<Html> cells;
  for (const std::string& text : texts) cells.push_back(html("{}", text));
  return cells;
}

Html html_card(std::string_view name, std::string_view value, std::string_view detail) {
  return html("<div class=\"card\"><h3>{}</h3><p class=\"value\">{}</p><p>{}</p></div>", name, value, detail);
}

Html recipe_details(std::string_view json) {
  return html(
      "<section><h2>Recipe</h2><details><summary>Every key, including those filled in by "
      "defaults and presets</summary><pre>{}</pre></details></section>\n",
      json);
}

}  // namespace llmtrain
