// SPDX-License-Identifier: Apache-2.0
#include "core/page/line_chart.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/units.h"
#include "core/page/axis.h"
#include "core/page/html.h"

namespace llmtrain {
namespace {

constexpr double left_gutter = 62, right_gutter = 10, plot_width = 488, plot_height = 190, bottom_gutter = 24;
constexpr double ticks_wanted = 5;
constexpr double logarithmic_from = 50;  // largest ÷ smallest value
constexpr std::size_t colours = 16;
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

std::string colour_of(std::size_t colour) {
  return fmt::format("var(--{}{})", colour % colours < colours / 2 ? 'b' : 'f', colour % (colours / 2));
}

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

  std::string grid() const {
    std::string text;
    const double step = y_step();
    for (double count = std::ceil(y_.low / step - 1e-9); count * step <= y_.high + 1e-9 * step; ++count) {
      // + 0.0 because the smallest count may be −0.
      const double value = is_logarithmic_ ? std::pow(10, count * step) : count * step + 0.0;
      const std::string label =
          is_logarithmic_ && unit_ == ChartUnit::number ? logarithmic_text(value) : value_text(value, step, unit_);
      text += fmt::format("<path class=\"grid\" d=\"M0 {0}H{1}\"/><text class=\"name\" x=\"-6\" y=\"{2}\">{3}</text>",
                          svg_number(y(value)), svg_number(plot_width), svg_number(y(value) + 4), label);
    }
    const double x_step = round_step(std::max(x_.length() / ticks_wanted, 1.0));
    for (double count = std::ceil(x_.low / x_step - 1e-9); count * x_step <= x_.high + 1e-9 * x_step; ++count) {
      const double value = count * x_step + 0.0;
      text +=
          fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>", x(value) > plot_width - 20 ? "name" : "middle",
                      svg_number(x(value) > plot_width - 20 ? plot_width : x(value)), svg_number(plot_height + 16),
                      x_step >= 1000 ? (value == 0 ? "0" : format_count(value)) : fmt::format("{:.0f}", value));
    }
    return text;
  }

  // For the page's script: what the left and right, bottom and top of the plot stand for.
  std::string attributes() const {
    return fmt::format("data-x0=\"{}\" data-x1=\"{}\" data-y0=\"{}\" data-y1=\"{}\" data-log=\"{}\" data-unit=\"{}\"",
                       x_.low, x_.high, y_.low, y_.high, is_logarithmic_ ? 1 : 0, static_cast<int>(unit_));
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

std::string band_of(const ChartLine& line, const Scale& scale) {
  if (std::none_of(line.points.begin(), line.points.end(), is_range)) return "";
  std::string above, below;
  for (const CurvePoint& point : line.points) {
    if (!std::isfinite(point.y)) continue;
    above += fmt::format("{}{} {}", above.empty() ? 'M' : 'L', svg_number(scale.x(point.x)),
                         svg_number(scale.y(point.high)));
    below.insert(0, fmt::format("L{} {}", svg_number(scale.x(point.x)), svg_number(scale.y(point.low))));
  }
  return fmt::format("<path style=\"fill:{};opacity:.22\" d=\"{}{}Z\"/>", colour_of(line.colour), above, below);
}

std::string path_of(const ChartLine& line, const Scale& scale) {
  std::string path, dots;
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
      dots += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"2.4\" style=\"fill:{}\"/>", x, y, colour_of(line.colour));
  }
  return fmt::format("<path class=\"line\" data-name=\"{}\" style=\"stroke:{}\" d=\"{}\"/>{}", html_text(line.name),
                     colour_of(line.colour), path, dots);
}

std::string level_line(const ChartLevel& level, const Scale& scale) {
  return fmt::format("<path class=\"limit\" d=\"M0 {}H{}\"/>", svg_number(scale.y(level.value)),
                     svg_number(plot_width));
}

std::string level_name(const ChartLevel& level, const Scale& scale, ChartUnit unit) {
  return fmt::format("<text class=\"limit-name\" x=\"{}\" y=\"{}\">{}: {}</text>", svg_number(plot_width - 4),
                     // Above the line, or below it at the top.
                     svg_number(scale.y(level.value) > 16 ? scale.y(level.value) - 5 : scale.y(level.value) + 13),
                     html_text(level.name), value_text(level.value, std::abs(level.value) / 100, unit));
}

std::string svg_of(const LineChart& chart, const Scale& scale) {
  std::string text = fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" {}><g transform=\"translate({} 8)\">",
      svg_number(left_gutter + plot_width + right_gutter), svg_number(8 + plot_height + bottom_gutter),
      html_text(chart.title), scale.attributes(), svg_number(left_gutter));
  text += scale.grid();
  for (const ChartLine& line : chart.lines) text += band_of(line, scale);
  if (chart.level) text += level_line(*chart.level, scale);
  for (const ChartLine& line : chart.lines) text += path_of(line, scale);
  // Last, with an edge in the page's colour: what crosses it stays readable.
  if (chart.level) text += level_name(*chart.level, scale, chart.unit);
  return text + fmt::format("<path class=\"cursor\" d=\"M0 0V{}\"/></g></svg>", svg_number(plot_height));
}

}  // namespace

std::string line_chart(const LineChart& chart) {
  Range x, y;
  for (const ChartLine& line : chart.lines) {
    for (const CurvePoint& point : line.points) {
      if (!std::isfinite(point.y)) continue;
      x.hold(point.x);
      y.hold(point.low);
      y.hold(point.high);
    }
  }
  if (!std::isfinite(x.low)) return "";
  if (chart.level) y.hold(chart.level->value);
  return fmt::format("<figure data-x=\"{}\"><h2>{}</h2><p class=\"note\">{}</p>{}</figure>\n", html_text(chart.x_name),
                     html_text(chart.title), html_text(chart.note), svg_of(chart, Scale(chart, x, y)));
}

std::string chart_grid(const std::string& charts) { return "<section class=\"charts\">" + charts + "</section>\n"; }

std::string chart_legend(const std::vector<std::string>& names) {
  std::string text = "<p class=\"legend\">";
  for (std::size_t i = 0; i < names.size(); ++i)
    text +=
        fmt::format("<span class=\"key\"><i style=\"background:{}\"></i>{}</span>", colour_of(i), html_text(names[i]));
  return text + "</p>\n";
}

}  // namespace llmtrain
