// SPDX-License-Identifier: Apache-2.0
#include "core/page/line_chart.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/base/units.h"
#include "core/page/axis.h"
#include "core/page/html.h"

namespace llmtrain {
namespace {

constexpr double left_gutter = 62, right_gutter = 10, plot_width = 488, plot_height = 190, bottom_gutter = 38;
constexpr double ticks_wanted = 5;
constexpr double logarithmic_from = 50;   // largest ÷ smallest value
constexpr std::size_t dotted_up_to = 30;  // points of a line that are marked one by one

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void hold(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double length() const { return high - low; }
};

// As the style sheet calls them.
constexpr std::array<MarkupLiteral, 16> colours{
    "var(--b0)", "var(--b1)", "var(--b2)", "var(--b3)", "var(--b4)", "var(--b5)", "var(--b6)", "var(--b7)",
    "var(--f0)", "var(--f1)", "var(--f2)", "var(--f3)", "var(--f4)", "var(--f5)", "var(--f6)", "var(--f7)"};

std::string value_text(double value, double step, ChartUnit unit) {
  const double least = unit == ChartUnit::percent ? 100 * step : step;
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(least) - 1e-9)), 0, 9);
  switch (unit) {
    case ChartUnit::number:
      // Learning rates would need many zeros.
      if (step < 1e-3) return value == 0 ? "0" : fmt::format("{:.{}e}", value, 1);
      return fmt::format("{:.{}f}", value, decimals);
    case ChartUnit::count:
      return value == 0 ? "0" : format_count(value);
    case ChartUnit::bytes:
      return value == 0 ? "0" : format_bytes(std::llround(value));
    case ChartUnit::seconds:
      return value == 0 ? "0" : format_duration(value);
    case ChartUnit::percent:
      return fmt::format("{:.{}f} %", 100 * value, decimals);
  }
  return "";
}

std::string logarithmic_text(double value) { return value < 1000 ? fmt::format("{:.3g}", value) : format_count(value); }

// Where a value is drawn, in both directions.
class Scale {
 public:
  Scale(const LineChart& chart, Range x, Range y) : unit_(chart.unit), x_(x), y_(y) {
    is_logarithmic_ = chart.may_be_logarithmic && y.low > 0 && y.high > logarithmic_from * y.low;
    if (is_logarithmic_) {
      y_ = {std::log10(y.low), std::log10(y.high)};
    } else if (chart.has_zero) {
      y_.hold(0);
    }
    // A constant has no range of its own.
    if (!(y_.length() > 0))
      y_ = {y_.low - 0.5 * std::max(std::abs(y_.low), 1e-9), y_.high + 0.5 * std::max(std::abs(y_.high), 1e-9)};
    const double margin = 0.04 * y_.length();
    y_.high += margin;
    if (!chart.has_zero || is_logarithmic_) y_.low -= margin;
    if (!(x_.length() > 0)) x_.hold(x_.low + 1);
  }

  double x(double value) const { return plot_width * (value - x_.low) / x_.length(); }
  double y(double value) const {
    return plot_height * (y_.high - (is_logarithmic_ ? std::log10(value) : value)) / y_.length();
  }

  // Values and lines across the plot; the page's script replaces them where it changes the scale.
  Html y_axis() const {
    Html text;
    const double step = y_step();
    for (double count = std::ceil(y_.low / step - 1e-9); count * step <= y_.high + 1e-9 * step; ++count) {
      // + 0.0 because the smallest count may be −0.
      const double value = is_logarithmic_ ? std::pow(10, count * step) : count * step + 0.0;
      const std::string label =
          is_logarithmic_ && unit_ == ChartUnit::number ? logarithmic_text(value) : value_text(value, step, unit_);
      text += html("<path class=\"grid\" d=\"M0 {0}H{1}\"/><text class=\"name\" x=\"-6\" y=\"{2}\">{3}</text>",
                   svg_number(y(value)), svg_number(plot_width), svg_number(y(value) + 4), label);
    }
    return html("<g class=\"y-axis\">{}</g>", text);
  }

  Html x_axis(const std::string& name) const {
    Html text = html("<text class=\"middle\" x=\"{}\" y=\"{}\">{}</text>", svg_number(plot_width / 2),
                     svg_number(plot_height + 31), name);
    const double x_step = round_step(std::max(x_.length() / ticks_wanted, 1.0));
    for (double count = std::ceil(x_.low / x_step - 1e-9); count * x_step <= x_.high + 1e-9 * x_step; ++count) {
      const double value = count * x_step + 0.0;
      text += html("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>", x(value) > plot_width - 20 ? "name" : "middle",
                   svg_number(x(value) > plot_width - 20 ? plot_width : x(value)), svg_number(plot_height + 16),
                   x_step >= 1000 ? (value == 0 ? "0" : format_count(value)) : fmt::format("{:.0f}", value));
    }
    return text;
  }

  // The chart's element around its content. For the page's script it says what the left and right, bottom and top of
  // the plot stand for.
  Html svg(const std::string& title, const Html& content) const {
    return html(
        "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" data-x0=\"{}\" data-x1=\"{}\" "
        "data-y0=\"{}\" data-y1=\"{}\" data-log=\"{}\" data-unit=\"{}\"><g transform=\"translate({} 8)\">{}</g></svg>",
        svg_number(left_gutter + plot_width + right_gutter), svg_number(8 + plot_height + bottom_gutter), title, x_.low,
        x_.high, y_.low, y_.high, is_logarithmic_ ? 1 : 0, static_cast<int>(unit_), svg_number(left_gutter), content);
  }

 private:
  double y_step() const {
    const double least = y_.length() / ticks_wanted;
    if (is_logarithmic_) return std::max(1.0, round_step(least));
    // Bytes are round at powers of two.
    return unit_ == ChartUnit::bytes ? std::exp2(std::ceil(std::log2(least))) : round_step(least);
  }

  ChartUnit unit_;
  Range x_, y_;
  bool is_logarithmic_ = false;
};

bool is_range(const CurvePoint& point) { return std::isfinite(point.y) && point.high > point.low; }

Html band_of(const ChartLine& line, const Scale& scale) {
  if (std::none_of(line.points.begin(), line.points.end(), is_range)) return {};
  std::string above, below;
  for (const CurvePoint& point : line.points) {
    if (!std::isfinite(point.y)) continue;
    above += fmt::format("{}{} {}", above.empty() ? 'M' : 'L', svg_number(scale.x(point.x)),
                         svg_number(scale.y(point.high)));
    below.insert(0, fmt::format("L{} {}", svg_number(scale.x(point.x)), svg_number(scale.y(point.low))));
  }
  return html("<path class=\"band\" style=\"fill:{};opacity:.22\" d=\"{}{}Z\"/>", chart_colour(line.colour), above,
              below);
}

Html path_of(const ChartLine& line, const Scale& scale) {
  std::string path;
  Html dots;
  bool is_joined = false;
  for (const CurvePoint& point : line.points) {
    if (!std::isfinite(point.y)) {
      is_joined = false;
      continue;
    }
    const std::string x = svg_number(scale.x(point.x)), y = svg_number(scale.y(point.y));
    path += fmt::format("{}{} {}", is_joined ? 'L' : 'M', x, y);
    is_joined = true;
    if (line.points.size() <= dotted_up_to)
      dots += html("<circle data-of=\"{}\" cx=\"{}\" cy=\"{}\" r=\"2.4\" style=\"fill:{}\"/>", line.name, x, y,
                   chart_colour(line.colour));
  }
  return html("<path class=\"line\" data-name=\"{}\" style=\"stroke:{}\" d=\"{}\"/>{}", line.name,
              chart_colour(line.colour), path, dots);
}

Html level_line(const ChartLevel& level, const Scale& scale) {
  return html("<path class=\"limit\" d=\"M0 {}H{}\"/>", svg_number(scale.y(level.value)), svg_number(plot_width));
}

Html level_name(const ChartLevel& level, const Scale& scale, ChartUnit unit) {
  return html("<text class=\"limit-name\" x=\"{}\" y=\"{}\">{}: {}</text>", svg_number(plot_width - 4),
              // Above the line, or below it at the top.
              svg_number(scale.y(level.value) > 16 ? scale.y(level.value) - 5 : scale.y(level.value) + 13), level.name,
              value_text(level.value, std::abs(level.value) / 100, unit));
}

Html marks_of(const std::vector<ChartMark>& marks, const Scale& scale) {
  Html text;
  for (const ChartMark& mark : marks)
    text += html("<path class=\"mark\" data-name=\"{}\" d=\"M{} 0V{}\"/>", mark.name,
                 svg_number(std::clamp(scale.x(mark.x), 0.0, plot_width)), svg_number(plot_height));
  return text;
}

Html svg_of(const LineChart& chart, const Scale& scale) {
  Html text = scale.y_axis() + scale.x_axis(chart.x_name) + marks_of(chart.marks, scale);
  for (const ChartLine& line : chart.lines) text += band_of(line, scale);
  if (chart.level) text += level_line(*chart.level, scale);
  for (const ChartLine& line : chart.lines) text += path_of(line, scale);
  // Last, with an edge in the page's colour: what crosses it stays readable.
  if (chart.level) text += level_name(*chart.level, scale, chart.unit);
  text += html("<path class=\"cursor\" d=\"M0 0V{}\"/>", svg_number(plot_height));
  return scale.svg(chart.title, text);
}

}  // namespace

MarkupLiteral chart_colour(std::size_t line) { return colours[line % colours.size()]; }

Html line_chart(const LineChart& chart) {
  Range x, y;
  for (const ChartLine& line : chart.lines) {
    for (const CurvePoint& point : line.points) {
      if (!std::isfinite(point.y)) continue;
      x.hold(point.x);
      y.hold(point.low);
      y.hold(point.high);
    }
  }
  if (!std::isfinite(x.low)) return {};
  if (chart.level) y.hold(chart.level->value);
  return html("<figure data-x=\"{}\" data-exact=\"{}\"><h2>{}</h2><p class=\"note\">{}</p>{}</figure>\n", chart.x_name,
              chart.is_exact ? 1 : 0, chart.title, chart.note, svg_of(chart, Scale(chart, x, y)));
}

Html chart_grid(const Html& charts) { return html("<section class=\"charts\">{}</section>\n", charts); }

Html chart_legend(const std::vector<std::string>& names) {
  Html text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += html("<span class=\"key\"><i style=\"background:{}\"></i>{}</span>", chart_colour(i), names[i]);
  return html("<p class=\"legend\">{}</p>\n", text);
}

}  // namespace llmtrain
