// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <limits>

#include "core/page/html_page.h"
#include "core/page/line_chart.h"
#include "core/page/setting_text.h"
#include "parallel/run/report/comparison.h"
#include "parallel/run/report/run_charts.h"

namespace llmtrain {
namespace {

// The tokens after a step: of its row, or in proportion where only every log.every-th step has one.
double tokens_at(const RunMetrics& metrics, std::int64_t step) {
  const auto after = std::ranges::upper_bound(metrics.training, step, {}, &TrainingRow::step);
  if (after == metrics.training.begin()) return 0;
  const TrainingRow& row = *(after - 1);
  return static_cast<double>(row.tokens) * static_cast<double>(step) / static_cast<double>(row.step);
}

RunCurves curves_of(const ComparedRun& run) {
  RunCurves curves;
  curves.name = run.name;
  for (const TrainingRow& row : run.metrics.training) curves.add(row, static_cast<double>(row.tokens));
  for (const EvaluationRow& row : run.metrics.evaluations) curves.add(row, tokens_at(run.metrics, row.step));
  return curves;
}

Html figures_section(const RunComparison& comparison) {
  std::vector<std::string> head = {"", ""};
  for (const ComparedRun& run : comparison.runs) head.push_back(run.name);
  std::vector<std::vector<Html>> rows;
  std::string section;
  for (const ComparedFigure& figure : compared_figures(comparison)) {
    std::vector<std::string> cells = {figure.section == section ? "" : figure.section, figure.label};
    cells.insert(cells.end(), figure.values.begin(), figure.values.end());
    rows.push_back(text_cells(cells));
    section = figure.section;
  }
  return "<section><h2>Figures</h2>" + html_table(2, text_cells(head), rows) + "</section>\n";
}

Html keys_section(const RunComparison& comparison) {
  if (comparison.keys.empty()) return Html("<section><h2>Keys that differ</h2><p class=\"note\">None.</p></section>\n");
  std::vector<std::string> head = {"key"};
  for (const ComparedRun& run : comparison.runs) head.push_back(run.name);
  std::vector<std::vector<Html>> rows;
  constexpr std::size_t widest_setting = 60;
  for (const ComparedKey& key : comparison.keys) {
    std::vector<Html> cells = {html("<code>{}</code>", key.key)};
    for (const Json& value : key.values) cells.push_back(html("{}", setting_text(value, widest_setting)));
    rows.push_back(std::move(cells));
  }
  return "<section><h2>Keys that differ</h2>" + html_table(1, text_cells(head), rows) + "</section>\n";
}

}  // namespace

std::string comparison_page(const RunComparison& comparison) {
  std::vector<RunCurves> curves;
  for (const ComparedRun& run : comparison.runs) curves.push_back(curves_of(run));
  std::vector<const RunCurves*> pointers;
  std::vector<std::string> names;
  for (const RunCurves& each : curves) {
    pointers.push_back(&each);
    names.push_back(each.name);
  }
  std::string title;
  for (const std::string& name : names) title += (title.empty() ? "" : ", ") + name;
  const Html sections =
      html("<header><div><h1>{}</h1><p>Runs over tokens</p></div></header>\n{}", title, figures_section(comparison)) +
      html("<section>{}</section>\n", chart_legend(names)) + run_charts(pointers, "tokens", std::nullopt) +
      keys_section(comparison);
  return html_page({.title = "Runs: " + title,
                    .sections = sections,
                    .footer = "Measured by llmtrain run; each run's metrics.jsonl has every number.",
                    .scripts = {chart_script, chart_controls_script}});
}

}  // namespace llmtrain
