// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/page_sections.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "parallel/plan/report/text_layout.h"

namespace llmtrain {
namespace {

// In units of the SVG's view box. Each column becomes path segments, so their number bounds the size of the page.
constexpr double large_height = 240;
constexpr double small_height = 90;
constexpr std::size_t large_columns = 800;
constexpr std::size_t small_columns = 120;
constexpr double mebibyte = 1024.0 * 1024;

using Category = MemoryCategory;

// From the bottom: categories that stay constant first, so that what varies is drawn on a level base.
constexpr std::array<Category, memory_categories> stacking = {
    Category::framework, Category::weights,     Category::master_weights, Category::optimizer,
    Category::gradients, Category::activations, Category::buffers,        Category::communication};

const MemoryName& name_of(Category category) { return memory_names[static_cast<std::size_t>(category)]; }

// The scale of all charts of a page.
struct MemoryScale {
  double bytes = 0;  // at the top
  double limit = 0;  // 0: not on the chart
  double error = 0;  // of plans, relative to the limit

  double y(double value, double height) const { return height * (1 - value / bytes); }
};

MemoryScale scale_of(const Plan& plan) {
  double peak = 0;
  for (const RankSimulation& rank : plan.simulation.ranks) peak = std::max(peak, rank.peak_bytes);
  const double limit = plan.report.device_memory_bytes;
  // A limit far above the peak would flatten the chart.
  const bool shows_limit = limit > 0 && peak > 0.25 * limit;
  return {.bytes = std::max(1.0, 1.08 * (shows_limit ? std::max(peak, limit) : peak)),
          .limit = shows_limit ? limit : 0,
          .error = plan.report.accuracy.memory ? plan.report.accuracy.memory->error : 0};
}

// Areas from the axis up to the sum of a category and all below it, the topmost first, so that each later one covers
// it.
Html stacked_areas(const std::vector<MemoryColumn>& columns, const MemoryScale& scale, double width, double height) {
  Html text;
  for (std::size_t top = memory_categories; top-- > 0;) {
    double most = 0;
    for (const MemoryColumn& column : columns) most = std::max(most, column.bytes[stacking[top]]);
    if (most <= 0) continue;
    std::string path = fmt::format("M0 {}", svg_number(height));
    std::string last;
    for (const MemoryColumn& column : columns) {
      double sum = 0;
      for (std::size_t i = 0; i <= top; ++i) sum += column.bytes[stacking[i]];
      const std::string y = svg_number(scale.y(sum, height));
      if (y == last) continue;
      path += fmt::format("H{}V{}", svg_number(column.x), y);
      last = y;
    }
    path += fmt::format("H{}V{}z", svg_number(width), svg_number(height));
    text += html("<path class=\"m-{}\" d=\"{}\"/>", name_of(stacking[top]).key, path);
  }
  return text;
}

// The limit, and the peaks around it for which the error of plans decides whether they fit.
Html limit_line(const MemoryScale& scale, double width, double height) {
  if (scale.limit <= 0) return {};
  const std::string y = svg_number(scale.y(scale.limit, height));
  Html band;
  if (scale.error > 0) {
    // Above the top of the chart there is nothing to see.
    const double top = std::max(0.0, scale.y(scale.limit * (1 + scale.error), height));
    const double bottom = scale.y(scale.limit * (1 - scale.error), height);
    band = html("<rect class=\"tight\" x=\"0\" y=\"{}\" width=\"{}\" height=\"{}\"/>", svg_number(top),
                svg_number(width), svg_number(bottom - top));
  }
  return band + html("<path class=\"limit\" d=\"M0 {0}H{1}\"/>", y, svg_number(width));
}

// Grid lines at multiples of a power of two, which are round numbers of bytes.
Html grid(const MemoryScale& scale, double width, double height) {
  const double step = std::exp2(std::ceil(std::log2(scale.bytes / 6)));
  Html text;
  for (double value = 0; value <= scale.bytes; value += step) {
    const std::string y = svg_number(scale.y(value, height));
    text += html("<path class=\"grid\" d=\"M0 {}H{}\"/><text class=\"name\" x=\"-8\" y=\"{}\">{}</text>", y,
                 svg_number(width), svg_number(scale.y(value, height) + 4), value > 0 ? bytes_text(value) : "0");
  }
  return text;
}

Html large_chart(const std::vector<MemoryColumn>& columns, const MemoryScale& scale, const TimeAxis& axis) {
  const double width = axis.width();
  Html text = html(
      "<div class=\"scroll\"><svg class=\"memory whole\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"Memory of the fullest rank over one step\"><g transform=\"translate({} 8)\">",
      svg_number(gutter + width), svg_number(large_height + 32), svg_number(gutter));
  text += grid(scale, width, large_height) + stacked_areas(columns, scale, width, large_height) +
          limit_line(scale, width, large_height);
  if (scale.limit > 0)
    text += html("<text class=\"limit-name\" x=\"{}\" y=\"{}\">device limit: {}</text>", svg_number(width - 4),
                 svg_number(scale.y(scale.limit, large_height) - 5), bytes_text(scale.limit));
  for (const TimeTick& tick : axis.ticks())
    text += html("<text class=\"tick\" x=\"{}\" y=\"{}\">{}</text>", svg_number(tick.x), svg_number(large_height + 16),
                 tick.label);
  return text + html("<path class=\"cursor\" d=\"M0 0V{}\"/></g></svg></div>", svg_number(large_height));
}

// Data for the page's script: the start of each column and its mebibytes per category, in the order of `stacking`.
Html large_data(const std::vector<MemoryColumn>& columns, const TimeAxis& axis) {
  std::string names;
  for (const Category category : stacking)
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ",", name_of(category).label);
  std::string rows;
  for (const MemoryColumn& column : columns) {
    rows += fmt::format("{}[{}", rows.empty() ? "" : ",", svg_number(column.x));
    for (const Category category : stacking)
      rows += fmt::format(",{}", std::llround(column.bytes[category] / mebibyte));
    rows += ']';
  }
  return json_data("memory-data", fmt::format(R"({{"gutter":{},"width":{},"names":[{}],"columns":[{}]}})",
                                              svg_number(gutter), svg_number(axis.width()), names, rows));
}

Html small_chart(const Plan& plan, std::int32_t rank, const MemoryScale& scale) {
  const RankSimulation& simulated = plan.simulation.ranks[static_cast<std::size_t>(rank)];
  const double width = 240;
  const TimeAxis axis(plan.simulation.step_seconds, width, std::nullopt);
  const auto columns = memory_columns(simulated.memory, axis, small_columns);
  return html(
      "<figure><svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"Memory of pipeline rank {2}\">"
      "<rect class=\"row\" width=\"{0}\" height=\"{1}\"/>{3}{4}</svg>"
      "<figcaption>pipeline {2}: {5}</figcaption></figure>",
      svg_number(width), svg_number(small_height), rank, stacked_areas(columns, scale, width, small_height),
      limit_line(scale, width, small_height), bytes_text(simulated.peak_bytes));
}

Html memory_legend() {
  Html text("<p class=\"legend\">");
  for (const Category category : stacking)
    text += html("<span class=\"key\"><i class=\"m-{}\"></i>{}</span>", name_of(category).key, name_of(category).label);
  return text + "</p>";
}

}  // namespace

Html memory_section(const Plan& plan, const TimelineSelection& selection, const TimeAxis& axis) {
  const auto fullest = static_cast<std::int32_t>(fullest_rank(plan.report).pipeline_rank);
  const MemoryScale scale = scale_of(plan);
  const auto columns =
      memory_columns(plan.simulation.ranks.at(static_cast<std::size_t>(fullest)).memory, axis, large_columns);
  Html text = html("<section><h2>Memory over time</h2><p class=\"note\">Pipeline rank {}, the fullest", fullest);
  if (plan.report.device_memory_bytes > 0 && scale.limit <= 0)
    text += html("; the device's limit of {} is far above this chart", bytes_text(plan.report.device_memory_bytes));
  if (const auto& error = plan.report.accuracy.memory; error && scale.limit > 0)
    text += html("; peaks in the band around the limit are tight: plans err by {}, {}", margin_text(*error),
                 origin_text(*error));
  text += ".</p>" + memory_legend() + large_chart(columns, scale, axis) + large_data(columns, axis);
  if (selection.ranks.size() > 1) {
    text += "<div class=\"small-charts\">";
    for (const std::int32_t rank : selection.ranks) text += small_chart(plan, rank, scale);
    text += "</div>";
  }
  return text + "</section>\n";
}

}  // namespace llmtrain
