// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/published_source.h"

#include <spdlog/fmt/fmt.h>

#include <string_view>
#include <utility>
#include <vector>

#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/json/json_text.h"
#include "core/page/text_layout.h"
#include "core/page/text_table.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/published/rows.h"

namespace llmtrain::app {
namespace {

constexpr std::string_view published_prefix = "published:";

std::string sentence_of(const published::Row& row) {
  std::string text = row.source + ": " + row.note + ".";
  if (!row.inexact.empty()) text += " The nearest recipe stands for it: " + row.inexact + ".";
  return text;
}

std::string published_text(const std::vector<published::Row>& rows) {
  const TextStyle style = style_of_output();
  std::string text;
  for (auto row = rows.begin(); row != rows.end();) {
    const std::string& source = row->source;
    TextTable table({{"name", Align::left}, {"devices"}, {"", Align::left}, {"measured"}, {"", Align::left}});
    for (; row != rows.end() && row->source == source; ++row)
      table.add({{row->name},
                 {std::to_string(row->devices)},
                 {row->hardware},
                 {fmt::format("{:.6g}", row->value)},
                 {row->metric}},
                printable(row->note));
    text += (text.empty() ? "" : "\n") + paragraph(printable(source), style.width) + table.text(style);
  }
  return text;
}

Json published_json(const std::vector<published::Row>& rows) {
  Json list = Json::array();
  for (const published::Row& row : rows)
    list.push_back({{"name", row.name},
                    {"source", row.source},
                    {"profile", row.hardware},
                    {"program", row.program},
                    {"devices", row.devices},
                    {"metric", row.metric},
                    {"value", row.value},
                    {"unit", row.unit},
                    {"note", row.note},
                    {"inexact", row.inexact}});
  return list;
}

}  // namespace

std::optional<std::string> published_name(const std::string& source) {
  if (!source.starts_with(published_prefix)) return std::nullopt;
  return source.substr(published_prefix.size());
}

void explain_published(Explanation& explanation, const std::string& name) {
  const std::filesystem::path folder = published_folder();
  const published::Row row = published::row_named(name, published::named_rows(folder));
  // What the source states of its devices is in no recipe.
  const ClusterProfile profile = published::Shelf(folder.parent_path()).profile_of(row);
  explanation.source = std::string(published_prefix) + name;
  explanation.source_description = sentence_of(row);
  explanation.source_plan = make_plan(published::layouts_of(row, profile).front(), profile).report;
  explanation.measured = published::measured_speed(row, explanation.source_plan);
}

int list_published(bool json) {
  const std::vector<published::Row> rows = published::named_rows(published_folder());
  json ? write_json(published_json(rows).dump(2) + "\n") : write_result(published_text(rows));
  return static_cast<int>(ExitCode::done);
}

}  // namespace llmtrain::app
