// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/sweep.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/json/json_text.h"
#include "parallel/plan/report/report.h"

namespace llmtrain {
namespace {

// The columns after those of the axes.
struct Figure {
  std::string_view head;
  std::size_t width = 0;
};
constexpr std::array<Figure, 7> figures{
    {{"step", 8}, {"tokens/s", 10}, {"per device", 12}, {"MFU", 8}, {"memory", 10}, {"bubble", 8}, {"exposed", 9}}};

std::array<std::string, figures.size()> cells(const PlanReport& report) {
  return {duration_text(report.step.seconds),
          format_count(report.throughput.tokens_per_second),
          format_count(report.throughput.tokens_per_second_per_device),
          percent(report.throughput.mfu),
          bytes_text(fullest_rank(report).peak_bytes),
          percent(report.step.bubble_fraction),
          duration_text(report.step.exposed_communication_seconds)};
}

// Wide enough for the axis' name and all of its values.
std::vector<std::size_t> axis_widths(const Sweep& sweep, const std::vector<std::string>& names) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::size_t width = columns(names[i]);
    for (const std::string& value : sweep.axes[i].values) width = std::max(width, columns(printable(value)));
    widths.push_back(width + 2);
  }
  return widths;
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

std::string figures_text(const SweepPoint& point, bool is_best, const Paint& paint) {
  std::string text;
  const auto values = cells(*point.report);
  for (std::size_t i = 0; i < figures.size(); ++i) text += right_aligned(values[i], figures[i].width);
  if (is_tight(point)) {
    text += paint(Ink::notice, "  tight");
  } else if (!point.report->fits) {
    text += paint(Ink::bad, "  does not fit");
  }
  return is_best ? text + paint(Ink::good, "  best") : text;
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

std::string sweep_text(const Sweep& sweep, TextColour colour) {
  const Paint paint{colour};
  const std::vector<std::string> names = short_names(sweep.axes);
  const std::vector<std::size_t> widths = axis_widths(sweep, names);
  std::string text, head;
  for (const std::string& line : wrapped(printable(title(sweep)), page_width)) text += line + '\n';
  std::size_t used = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    head += right_aligned(names[i], widths[i]);
    used += widths[i];
  }
  for (const Figure& figure : figures) head += right_aligned(figure.head, figure.width);
  text += '\n' + paint(Ink::strong, head) + '\n';
  const SweepPoint* best = best_point(sweep);
  for (const SweepPoint& point : sweep.points) {
    for (std::size_t i = 0; i < names.size(); ++i) text += right_aligned(printable(point.values[i]), widths[i]);
    if (point.report) {
      text += figures_text(point, &point == best, paint);
    } else {
      const std::string reason = "  refused: " + printable(point.refusal);
      text += clipped(reason, page_width > used ? page_width - used : 0);
    }
    text += '\n';
  }
  if (best != nullptr) text += "\nbest: the most tokens per second per device among the plans that fit\n";
  if (std::ranges::any_of(sweep.points, is_tight))
    text += "tight: fits or not by less than plans err; best only where none with room is about as fast\n";
  if (sweep.derives_data) text += fmt::format("data: {}\n", derived_data_note);
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
