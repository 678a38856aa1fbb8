// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/sweep.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/json/json_text.h"
#include "core/page/text_table.h"
#include "parallel/plan/report/report.h"

namespace llmtrain {
namespace {

constexpr std::array<const char*, 7> figures{"step", "tokens/s", "per device", "MFU", "memory", "bubble", "exposed"};

std::array<std::string, figures.size()> figures_of(const PlanReport& report) {
  return {duration_text(report.step.seconds),
          format_count(report.throughput.tokens_per_second),
          format_count(report.throughput.tokens_per_second_per_device),
          percent(report.throughput.mfu),
          bytes_text(fullest_rank(report).peak_bytes),
          percent(report.step.bubble_fraction),
          duration_text(report.step.exposed_communication_seconds)};
}

std::string title(const Sweep& sweep) {
  std::size_t planned = 0, fit = 0;
  for (const SweepPoint& point : sweep.points) {
    planned += point.report ? 1U : 0U;
    fit += point.report && point.report->fits ? 1U : 0U;
  }
  std::string keys;
  for (const SweepAxis& axis : sweep.axes) keys += (keys.empty() ? "" : " × ") + axis.key;
  std::string text = fmt::format("{} by {}: {} plans, {} fit", sweep.name, keys, planned, fit);
  if (planned < sweep.points.size()) text += fmt::format(", {} refused", sweep.points.size() - planned);
  return text;
}

bool is_tight(const SweepPoint& point) { return point.report && verdict_of(*point.report) == MemoryVerdict::tight; }

TableCell verdict_cell(const SweepPoint& point) {
  if (is_tight(point)) return {"tight", Ink::notice};
  return point.report->fits ? TableCell{} : TableCell{"does not fit", Ink::bad};
}

TextTable table_of(const Sweep& sweep, const SweepPoint* best) {
  std::vector<TableColumn> columns;
  columns.push_back({""});
  for (const std::string& name : short_names(sweep.axes)) columns.push_back({name});
  for (const char* figure : figures) columns.push_back({figure});
  columns.push_back({"", Align::left});
  TextTable table(std::move(columns));
  for (const SweepPoint& point : sweep.points) {
    std::vector<TableCell> cells;
    cells.push_back({&point == best ? "*" : "", Ink::good});
    for (const std::string& value : point.values) cells.push_back({printable(value)});
    if (!point.report) {
      table.add(std::move(cells), "refused: " + printable(point.refusal));
      continue;
    }
    for (std::string& figure : figures_of(*point.report)) cells.push_back({std::move(figure)});
    cells.push_back(verdict_cell(point));
    table.add(std::move(cells));
  }
  return table;
}

Json value_json(const std::string& text) {
  const JsonText parsed = parse_json(text);
  return parsed.error.empty() ? parsed.value : Json(text);
}

Json point_json(const Sweep& sweep, const SweepPoint& point) {
  Json set = Json::object();
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) set[sweep.axes[i].key] = value_json(point.values[i]);
  Json json = {{"set", std::move(set)}, {"refused", point.report ? Json(nullptr) : Json(point.refusal)}};
  if (!point.report) return json;
  const Json report = to_json(*point.report);
  json["fits"] = report["fits"];
  json["verdict"] = report["verdict"];
  json["peak_bytes"] = static_cast<std::int64_t>(fullest_rank(*point.report).peak_bytes);
  for (const char* key : {"device_memory_bytes", "mesh", "step", "throughput", "run"}) json[key] = report[key];
  return json;
}

}  // namespace

const SweepPoint* best_point(const Sweep& sweep) {
  std::vector<const SweepPoint*> fitting;
  std::vector<Contender> contenders;
  for (const SweepPoint& point : sweep.points) {
    if (!point.report || !point.report->fits) continue;
    fitting.push_back(&point);
    contenders.push_back({.seconds = 1 / point.report->throughput.tokens_per_second_per_device,
                          .verdict = verdict_of(*point.report),
                          .step_error = point.report->accuracy.step});
  }
  const auto best = first_choice(contenders);
  return best ? fitting[*best] : nullptr;
}

std::vector<std::string> short_names(const std::vector<SweepAxis>& axes) {
  std::vector<std::string> names;
  for (const SweepAxis& axis : axes) names.push_back(axis.key.substr(axis.key.rfind('.') + 1));
  std::vector<std::string> unique;
  for (std::size_t i = 0; i < axes.size(); ++i)
    unique.push_back(std::ranges::count(names, names[i]) == 1 ? names[i] : axes[i].key);
  return unique;
}

std::string sweep_text(const Sweep& sweep, const TextStyle& style) {
  const SweepPoint* best = best_point(sweep);
  std::string text = paragraph(printable(title(sweep)), style.width) + '\n' + table_of(sweep, best).text(style);
  if (best != nullptr)
    text += '\n' + paragraph("* best: the most tokens per second per device among the plans that fit", style.width);
  if (std::ranges::any_of(sweep.points, is_tight))
    text += paragraph("tight: fits or not by less than plans err; best only where none with room is about as fast",
                      style.width);
  if (sweep.derives_data) text += paragraph(fmt::format("data: {}", derived_data_note), style.width);
  return text;
}

std::string sweep_json(const Sweep& sweep) {
  Json axes = Json::array(), plans = Json::array();
  for (const SweepAxis& axis : sweep.axes) {
    Json values = Json::array();
    for (const std::string& value : axis.values) values.push_back(value_json(value));
    axes.push_back({{"key", axis.key}, {"values", std::move(values)}});
  }
  for (const SweepPoint& point : sweep.points) plans.push_back(point_json(sweep, point));
  const SweepPoint* best = best_point(sweep);
  const Json json = {{"name", sweep.name},
                     {"axes", std::move(axes)},
                     {"derives_data", sweep.derives_data},
                     {"best", best == nullptr ? Json(nullptr) : Json(best - sweep.points.data())},
                     {"plans", std::move(plans)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace llmtrain
