// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/sweep.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "core/base/units.h"
#include "core/page/axis.h"
#include "core/page/line_chart.h"
#include "parallel/plan/report/html/drawn_step.h"
#include "parallel/plan/report/html/page_sections.h"
#include "parallel/plan/report/html/report_html.h"

namespace llmtrain {
namespace {

constexpr double plot_height = 260;
constexpr double ticks_wanted = 6;
// The palette's dark colours, then its light ones; further lines are only in the table.
constexpr std::size_t most_lines = 16;

// The plans that differ in the horizontal axis' value alone.
struct Line {
  std::string name;
  std::vector<const SweepPoint*> points;  // one per value of the horizontal axis
};

std::size_t longest_axis(const Sweep& sweep) {
  const auto longest =
      std::ranges::max_element(sweep.axes, {}, [](const SweepAxis& axis) { return axis.values.size(); });
  return static_cast<std::size_t>(longest - sweep.axes.begin());
}

std::vector<Line> lines_of(const Sweep& sweep, std::size_t horizontal) {
  const std::vector<std::string> names = short_names(sweep.axes);
  std::vector<Line> lines;
  for (const SweepPoint& point : sweep.points) {
    std::string name;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (i != horizontal) name += fmt::format("{}{} {}", name.empty() ? "" : ", ", names[i], point.values[i]);
    auto line = std::ranges::find(lines, name, &Line::name);
    if (line == lines.end()) line = lines.insert(line, {name, {}});
    line->points.push_back(&point);
  }
  return lines;
}

// What one chart shows of a plan.
struct Quantity {
  MarkupLiteral title;
  MarkupLiteral note;
  std::function<double(const PlanReport&)> value;
  std::function<std::string(double)> text;
  bool has_limit = false;  // the devices' memory
};

class Chart {
 public:
  Chart(const Sweep& sweep, std::size_t horizontal, const std::vector<Line>& lines, const Quantity& quantity)
      : axis_(sweep.axes[horizontal]), lines_(lines), quantity_(quantity), best_(best_point(sweep)) {
    std::vector<double> limits;
    for (const SweepPoint& point : sweep.points) {
      if (!point.report) continue;
      top_ = std::max(top_, quantity.value(*point.report));
      limits.push_back(point.report->device_memory_bytes);
    }
    // Where devices differ, no one line is the limit; one far above all plans would press them to the floor.
    const bool is_one_limit =
        !limits.empty() && std::ranges::all_of(limits, [&](double limit) { return limit == limits.front(); });
    if (quantity.has_limit && is_one_limit && limits.front() < 3 * top_) limit_ = limits.front();
    top_ = 1.06 * std::max({top_, limit_, 1e-30});
  }

  Html section() const {
    Html text = html(
        "<section><h2>{0}</h2><p class=\"note\">{1}</p>{2}<div class=\"scroll\"><svg class=\"whole\" viewBox=\"0 0 {3} "
        "{4}\" "
        "role=\"img\" aria-label=\"{0}\"><g transform=\"translate({5} 8)\">",
        quantity_.title, quantity_.note, legend(), svg_number(gutter + plot_width), svg_number(plot_height + 48),
        svg_number(gutter));
    text += grid();
    for (std::size_t i = 0; i < std::min(lines_.size(), most_lines); ++i) text += line(i);
    return text + "</g></svg></div></section>\n";
  }

 private:
  double x(std::size_t value) const {
    return plot_width * (static_cast<double>(value) + 0.5) / static_cast<double>(axis_.values.size());
  }
  double y(double value) const { return plot_height * (1 - value / top_); }

  Html legend() const {
    if (lines_.size() == 1) return {};
    Html text("<p class=\"legend\">");
    for (std::size_t i = 0; i < std::min(lines_.size(), most_lines); ++i)
      text += html("<span class=\"key\"><i style=\"background:{}\"></i>{}</span>", chart_colour(i), lines_[i].name);
    if (lines_.size() > most_lines) text += html("<span>and {} more in the table</span>", lines_.size() - most_lines);
    return text + "</p>";
  }

  Html grid() const {
    Html text;
    // Bytes are round at powers of two.
    const double least = top_ / ticks_wanted;
    const double step = quantity_.has_limit ? std::exp2(std::ceil(std::log2(least))) : round_step(least);
    for (double value = 0; value <= top_; value += step)
      text += html("<path class=\"grid\" d=\"M0 {}H{}\"/><text class=\"name\" x=\"-8\" y=\"{}\">{}</text>",
                   svg_number(y(value)), svg_number(plot_width), svg_number(y(value) + 4),
                   value > 0 ? quantity_.text(value) : "0");
    for (std::size_t i = 0; i < axis_.values.size(); ++i)
      text += html("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>", svg_number(x(i)),
                   svg_number(plot_height + 18), axis_.values[i]);
    text += html("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>", svg_number(plot_width / 2),
                 svg_number(plot_height + 36), axis_.key);
    if (limit_ <= 0) return text;
    return text + html(
                      "<path class=\"limit\" d=\"M0 {0}H{1}\"/><text class=\"limit-name\" x=\"{2}\" y=\"{3}\">"
                      "device limit: {4}</text>",
                      svg_number(y(limit_)), svg_number(plot_width), svg_number(plot_width - 4),
                      svg_number(y(limit_) - 5), bytes_text(limit_));
  }

  // Joined where neighbouring values both have a plan; a plan that does not fit is a hollow circle.
  Html line(std::size_t index) const {
    const MarkupLiteral colour = chart_colour(index);
    std::string path;
    Html circles;
    bool is_joined = false;
    const std::vector<const SweepPoint*>& points = lines_[index].points;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (!points[i]->report) {
        is_joined = false;
        continue;
      }
      const double value = quantity_.value(*points[i]->report);
      path += fmt::format("{}{} {}", is_joined ? 'L' : 'M', svg_number(x(i)), svg_number(y(value)));
      is_joined = true;
      circles += circle(*points[i], x(i), y(value), colour, quantity_.text(value));
    }
    return html("<path d=\"{}\" style=\"fill:none;stroke:{};stroke-width:2\"/>{}", path, colour, circles);
  }

  Html circle(const SweepPoint& point, double left, double top, MarkupLiteral colour, const std::string& value) const {
    std::string words;
    for (const std::string& set : point.values) words += set + " · ";
    return html(
        "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" "
        "style=\"fill:{};stroke:{};stroke-width:2\"><title>{}{}{}</title></circle>",
        svg_number(left), svg_number(top), &point == best_ ? 7 : 4.5,
        point.report->fits ? colour : MarkupLiteral("var(--page)"), colour, words, value,
        point.report->fits ? "" : fmt::format(", {}", verdict_word(verdict_of(*point.report))));
  }

  const SweepAxis& axis_;
  const std::vector<Line>& lines_;
  const Quantity& quantity_;
  const SweepPoint* best_;
  double limit_ = 0;
  double top_ = 0;
};

std::vector<Html> row(const SweepPoint& point, bool is_best) {
  std::vector<Html> cells;
  for (const std::string& value : point.values) cells.push_back(html("<code>{}</code>", value));
  if (!point.report) {
    cells.resize(cells.size() + 8, Html("–"));
    cells.push_back(html("<span class=\"reason\">refused: {}</span>", point.refusal));
    return cells;
  }
  const PlanReport& report = *point.report;
  for (const std::string& text :
       {std::to_string(report.mesh.world()), duration_text(report.step.seconds),
        format_count(report.throughput.tokens_per_second), format_count(report.throughput.tokens_per_second_per_device),
        percent(report.throughput.mfu), bytes_text(fullest_rank(report).peak_bytes),
        percent(report.step.bubble_fraction), cost_text(report.run)})
    cells.push_back(html("{}", text));
  cells.push_back(html("{}{}", is_best ? Html("<b>best</b>, ") : Html(), verdict_word(verdict_of(report))));
  return cells;
}

Html table_section(const Sweep& sweep) {
  std::vector<Html> head;
  for (const SweepAxis& axis : sweep.axes) head.push_back(html("<code>{}</code>", axis.key));
  for (const char* name : {"devices", "step", "tokens/s", "per device", "MFU", "fullest rank", "bubble", "run", ""})
    head.push_back(html("{}", name));
  std::vector<std::vector<Html>> rows;
  const SweepPoint* best = best_point(sweep);
  for (const SweepPoint& point : sweep.points) rows.push_back(row(point, &point == best));
  Html note("Best: the most tokens per second per device among the plans that fit.");
  if (sweep.derives_data) note += html(" <code>parallel.data</code>: {}.", derived_data_note);
  return html("<section><h2>All plans</h2><p class=\"note\">{}</p>{}</section>\n", note, html_table(0, head, rows));
}

Html headline(const Sweep& sweep) {
  std::string keys;
  for (const SweepAxis& axis : sweep.axes) keys += (keys.empty() ? "" : " × ") + axis.key;
  return html("<header><div><h1>{}</h1><p>{} plans by <code>{}</code></p></div></header>\n", sweep.name,
              sweep.points.size(), keys);
}

}  // namespace

std::string sweep_html(const Sweep& sweep) {
  const std::size_t horizontal = longest_axis(sweep);
  const std::vector<Line> lines = lines_of(sweep, horizontal);
  const Quantity speed{"Speed", "Tokens per second per device. Hollow circles do not fit; the largest is the best.",
                       [](const PlanReport& report) { return report.throughput.tokens_per_second_per_device; },
                       [](double value) { return format_count(value); }, false};
  const Quantity memory{"Memory", "The fullest rank's peak.",
                        [](const PlanReport& report) { return fullest_rank(report).peak_bytes; },
                        [](double value) { return bytes_text(value); }, true};
  return plan_page("Sweep of " + sweep.name, headline(sweep) + Chart(sweep, horizontal, lines, speed).section() +
                                                 Chart(sweep, horizontal, lines, memory).section() +
                                                 table_section(sweep));
}

}  // namespace llmtrain
