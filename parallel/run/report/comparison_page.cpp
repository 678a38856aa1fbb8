// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <limits>

#include "core/page/html.h"
#include "core/page/line_chart.h"
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

std::string figures_section(const RunComparison& comparison) {
  std::vector<std::string> head = {"", ""};
  for (const ComparedRun& run : comparison.runs) head.push_back(html_text(run.name));
  std::vector<std::vector<std::string>> rows;
  std::string section;
  for (const ComparedFigure& figure : compared_figures(comparison)) {
    std::vector<std::string> cells = {figure.section == section ? "" : html_text(figure.section),
                                      html_text(figure.label)};
    for (const std::string& value : figure.values) cells.push_back(html_text(value));
    rows.push_back(std::move(cells));
    section = figure.section;
  }
  return "<section><h2>Figures</h2>" + html_table(2, head, rows) + "</section>\n";
}

std::string keys_section(const RunComparison& comparison) {
  if (comparison.keys.empty()) return "<section><h2>Keys that differ</h2><p class=\"note\">None.</p></section>\n";
  std::vector<std::string> head = {"key"};
  for (const ComparedRun& run : comparison.runs) head.push_back(html_text(run.name));
  std::vector<std::vector<std::string>> rows;
  constexpr std::size_t widest_setting = 60;
  for (const ComparedKey& key : comparison.keys) {
    std::vector<std::string> cells = {"<code>" + html_text(key.key) + "</code>"};
    for (const Json& value : key.values) cells.push_back(html_text(setting_text(value, widest_setting)));
    rows.push_back(std::move(cells));
  }
  return "<section><h2>Keys that differ</h2>" + html_table(1, head, rows) + "</section>\n";
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
  const std::string sections = "<header><div><h1>" + html_text(title) +
                               "</h1><p>Runs over tokens</p></div></header>\n" + figures_section(comparison) +
                               "<section>" + chart_legend(names) + "</section>\n" +
                               run_charts(pointers, "tokens", std::nullopt) + keys_section(comparison);
  return html_page({.title = "Runs: " + title,
                    .sections = sections,
                    .footer = "Measured by llmtrain run; each run's metrics.jsonl has every number.",
                    .script = std::string(chart_script)});
}

}  // namespace llmtrain
