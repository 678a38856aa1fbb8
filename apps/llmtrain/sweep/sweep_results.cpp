// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/sweep/sweep_results.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/json/json_text.h"
#include "core/page/text_table.h"
#include "parallel/run/report/run_metrics.h"

namespace llmtrain::app {
namespace {

constexpr std::size_t widest_setting = 24;

std::optional<RunFigures> figures_in(const std::filesystem::path& directory) {
  const std::filesystem::path metrics = directory / "metrics.jsonl";
  std::error_code error;
  if (!std::filesystem::exists(metrics, error)) return std::nullopt;
  const RunFigures figures = figures_of(read_metrics(metrics));
  return figures.steps > 0 ? std::optional(figures) : std::nullopt;
}

// What a run is judged by; infinite where it has no such number.
double loss_of(const std::optional<RunFigures>& figures, bool have_evaluated) {
  if (!figures) return std::numeric_limits<double>::infinity();
  const auto& loss = have_evaluated ? figures->best_validation : figures->last;
  return loss && std::isfinite(loss->loss) ? loss->loss : std::numeric_limits<double>::infinity();
}

std::string state_of(const SweepRun& run, bool has_measured) {
  if (!run.refusal.empty()) return "refused: " + printable(run.refusal);
  if (!run.exit_code) return has_measured ? "has not ended" : "not started";
  if (*run.exit_code == static_cast<int>(ExitCode::done)) return "";
  if (*run.exit_code == static_cast<int>(ExitCode::stopped)) return "stopped, goes on with the same command";
  return fmt::format("exit code {}, see {}", *run.exit_code, printable(run.log.string()));
}

std::string loss_text(const std::optional<LossFigure>& loss) {
  if (!loss) return "–";
  return std::isfinite(loss->loss) ? fmt::format("{:.4f}", loss->loss) : "not finite";
}

Json number_json(const std::optional<LossFigure>& loss) {
  return loss && std::isfinite(loss->loss) ? Json(loss->loss) : Json(nullptr);
}

Json run_json(const std::vector<SweepAxis>& axes, const SweepRun& run, const std::optional<RunFigures>& figures) {
  Json set = Json::object();
  for (std::size_t i = 0; i < axes.size(); ++i) set[axes[i].key] = run.values[i];
  return {{"set", std::move(set)},
          {"directory", run.directory.string()},
          {"log", run.log.string()},
          {"refused", run.refusal.empty() ? Json(nullptr) : Json(run.refusal)},
          {"exit_code", run.exit_code ? Json(*run.exit_code) : Json(nullptr)},
          {"steps", figures ? Json(figures->steps) : Json(nullptr)},
          {"loss", figures ? number_json(figures->last) : Json(nullptr)},
          {"validation_loss", figures ? number_json(figures->best_validation) : Json(nullptr)},
          {"tokens_per_second",
           figures && std::isfinite(figures->tokens_per_second) ? Json(figures->tokens_per_second) : Json(nullptr)},
          {"memory_bytes", figures ? Json(figures->memory_bytes) : Json(nullptr)}};
}

}  // namespace

SweepResults sweep_results(const SweepRuns& sweep) {
  SweepResults results;
  for (const SweepRun& run : sweep.runs) results.figures.push_back(figures_in(run.directory));
  const auto has_measured = [](const auto& figures) { return figures.has_value(); };
  results.have_evaluated =
      std::ranges::any_of(results.figures, has_measured) &&
      std::ranges::all_of(results.figures, [](const auto& run) { return !run || run->best_validation; });
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < sweep.runs.size(); ++i) {
    const double loss = loss_of(results.figures[i], results.have_evaluated);
    if (sweep.runs[i].exit_code != 0 || !(loss < lowest)) continue;
    lowest = loss;
    results.best = i;
  }
  return results;
}

std::string sweep_results_text(const SweepRuns& sweep, const SweepResults& results, const TextStyle& style) {
  std::vector<TableColumn> columns{{""}};
  for (const std::string& key : short_names(sweep.axes)) columns.push_back({printable(key)});
  for (const char* head : {"steps", "loss", results.have_evaluated ? "validation" : "", "tokens/s", "memory"})
    columns.push_back({head});
  TextTable table(columns);
  std::vector<std::size_t> order(sweep.runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {},
                           [&](std::size_t run) { return loss_of(results.figures[run], results.have_evaluated); });
  for (const std::size_t index : order) {
    const SweepRun& run = sweep.runs[index];
    const Ink ink = results.best == index ? Ink::good : Ink::plain;
    std::vector<TableCell> cells{{results.best == index ? "*" : "", ink}};
    for (const std::string& value : run.values) cells.push_back({clipped(printable(value), widest_setting), ink});
    if (const auto& figures = results.figures[index]) {
      cells.push_back({std::to_string(figures->steps), ink});
      cells.push_back({loss_text(figures->last), ink});
      cells.push_back({results.have_evaluated ? loss_text(figures->best_validation) : "", ink});
      cells.push_back(
          {std::isfinite(figures->tokens_per_second) ? format_count(figures->tokens_per_second) : "–", ink});
      cells.push_back({bytes_text(static_cast<double>(figures->memory_bytes)), ink});
    }
    table.add(std::move(cells), state_of(run, results.figures[index].has_value()));
  }
  const std::string_view judged = results.have_evaluated ? "lowest validation loss" : "lowest loss of the last step";
  return table.text(style) + (results.best ? "\n" + paragraph(fmt::format("* best: the {}", judged), style.width) : "");
}

std::string sweep_results_json(const SweepRuns& sweep, const SweepResults& results) {
  Json axes = Json::array(), runs = Json::array();
  for (const SweepAxis& axis : sweep.axes) axes.push_back({{"key", axis.key}, {"values", axis.values}});
  for (std::size_t i = 0; i < sweep.runs.size(); ++i)
    runs.push_back(run_json(sweep.axes, sweep.runs[i], results.figures[i]));
  const Json json = {{"axes", std::move(axes)},
                     {"judged_by", results.have_evaluated ? "validation_loss" : "loss"},
                     {"best", results.best ? Json(*results.best) : Json(nullptr)},
                     {"runs", std::move(runs)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace llmtrain::app
