// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/page/curve.h"
#include "core/page/html.h"

namespace llmtrain {

// How a chart writes its values: 0.25, 1.2k, 395 MiB, 1.5s, 25 %.
enum class ChartUnit { number, count, bytes, seconds, percent };

struct ChartLine {
  std::string name;
  std::vector<CurvePoint> points;  // ascending x
  std::size_t colour = 0;          // of the palette
};

// A value that the lines are compared with, such as the planned one.
struct ChartLevel {
  std::string name;
  double value = 0;
};

// A moment that all lines share, such as where a run was resumed.
struct ChartMark {
  double x = 0;
  std::string name;
};

struct LineChart {
  std::string title{};
  std::string note{};  // below the title
  std::string x_name{};
  ChartUnit unit = ChartUnit::number;
  bool has_zero = false;  // the axis starts at zero
  bool is_exact = false;  // values without noise, which are not to be smoothed
  // The axis is logarithmic where values differ by more than a factor of 50 and all are positive.
  bool may_be_logarithmic = false;
  std::vector<ChartLine> lines{};
  std::optional<ChartLevel> level{};
  std::vector<ChartMark> marks{};  // dotted; at the plot's edge where they lie beyond it
};

// The chart: drawn in SVG, about 560 units wide, of which several stand side by side on a wide page and one
// fills a narrow one. Where points are ranges, a light band shows them behind the mean. Empty without a finite value.
Html line_chart(const LineChart& chart);

// The colour of a line, of which there are 16: dark ones, then light ones.
MarkupLiteral chart_colour(std::size_t line);

// Charts side by side.
Html chart_grid(const Html& charts);

// The legend of lines that several charts share.
Html chart_legend(const std::vector<std::string>& names);

// Shows the values at the pointer; for html_page().
extern const MarkupLiteral chart_script;
// Above the page's charts: how far their lines are smoothed, and logarithmic axes; for html_page(), after chart_script.
extern const MarkupLiteral chart_controls_script;

}  // namespace llmtrain
