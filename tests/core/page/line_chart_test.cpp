// SPDX-License-Identifier: Apache-2.0
#include "core/page/line_chart.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <regex>
#include <string>
#include <vector>

namespace llmtrain {
namespace {

ChartLine line_of(const std::vector<std::pair<double, double>>& values) {
  ChartLine line{.name = "a<b", .points = {}, .colour = 0};
  for (const auto& [x, y] : values) line.points.push_back({x, y, y, y});
  return line;
}

LineChart chart_of(const std::vector<std::pair<double, double>>& values) {
  LineChart chart{.title = "Loss", .note = "", .x_name = "step"};
  chart.lines.push_back(line_of(values));
  return chart;
}

std::string markup_of(const LineChart& chart) { return std::string(line_chart(chart).text()); }

double attribute(const std::string& html, const std::string& name) {
  std::smatch match;
  REQUIRE(std::regex_search(html, match, std::regex(name + "=\"([^\"]*)\"")));
  return std::stod(match[1]);
}

// The drawn points of a chart's first line, as the values that the page's script reads from them.
std::vector<std::pair<double, double>> read_back(const std::string& html) {
  std::smatch match;
  REQUIRE(std::regex_search(html, match, std::regex("class=\"line\"[^>]* d=\"([^\"]*)\"")));
  const std::string path = match[1];
  const double x0 = attribute(html, "data-x0"), x1 = attribute(html, "data-x1"), y0 = attribute(html, "data-y0"),
               y1 = attribute(html, "data-y1");
  std::vector<std::pair<double, double>> points;
  const std::regex pair("[ML]([-0-9.]+) ([-0-9.]+)");
  for (std::sregex_iterator at(path.begin(), path.end(), pair), end; at != end; ++at) {
    const double y = y1 - std::stod((*at)[2]) / 190 * (y1 - y0);
    points.emplace_back(x0 + std::stod((*at)[1]) / 488 * (x1 - x0),
                        attribute(html, "data-log") == 1 ? std::pow(10, y) : y);
  }
  return points;
}

TEST_CASE("points are drawn where the axes say") {
  const std::vector<std::pair<double, double>> values{{1, 5.6}, {10, 3.25}, {100, 1.5}, {200, 1.75}};
  for (const bool has_zero : {false, true}) {
    LineChart chart = chart_of(values);
    chart.has_zero = has_zero;
    const std::string html = markup_of(chart);
    const auto drawn = read_back(html);
    REQUIRE(drawn.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      // Hundredths of a unit, of 488 and 190.
      CHECK(drawn[i].first == Approx(values[i].first).margin(200 * 0.01 / 488));
      CHECK(drawn[i].second == Approx(values[i].second).margin(6 * 0.01 / 190));
    }
    CHECK((html.find(">0<") != std::string::npos) == has_zero);
    CHECK(html.find("a&lt;b") != std::string::npos);
  }
}

TEST_CASE("an axis is logarithmic where values differ much, if it may") {
  const std::vector<std::pair<double, double>> values{{1, 1000}, {2, 10}, {3, 0.5}};
  LineChart chart = chart_of(values);
  CHECK(attribute(markup_of(chart), "data-log") == 0);
  chart.may_be_logarithmic = true;
  const std::string html = markup_of(chart);
  CHECK(attribute(html, "data-log") == 1);
  const auto drawn = read_back(html);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(drawn[i].second == Approx(values[i].second).epsilon(1e-3));
  for (const char* label : {">1<", ">10<", ">100<", ">1.0k<"}) CHECK(html.find(label) != std::string::npos);
  CHECK(attribute(markup_of(chart_of({{1, 2}, {2, 1}})), "data-log") == 0);
  LineChart with_zero = chart_of({{1, 1000}, {2, 0}});
  with_zero.may_be_logarithmic = true;
  CHECK(attribute(markup_of(with_zero), "data-log") == 0);
}

TEST_CASE("nothing, one value, constants and what is not finite are drawn without numbers that are none") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(markup_of(chart_of({})).empty());
  CHECK(markup_of(chart_of({{1, nan}})).empty());
  for (const auto& values : std::vector<std::vector<std::pair<double, double>>>{
           {{1, 2}}, {{1, 0}, {2, 0}}, {{1, -3}, {2, -3}}, {{1, 1e-300}, {2, 1e-300}}, {{1, 2}, {2, nan}, {3, 4}}}) {
    for (const ChartUnit unit :
         {ChartUnit::number, ChartUnit::count, ChartUnit::bytes, ChartUnit::seconds, ChartUnit::percent}) {
      LineChart chart = chart_of(values);
      chart.unit = unit;
      chart.level = ChartLevel{"planned", 1};
      const std::string html = markup_of(chart);
      CHECK(html.find("nan") == std::string::npos);
      CHECK(html.find("inf") == std::string::npos);
      CHECK(html.size() < 8000);
    }
  }
  // A gap stays one.
  CHECK(std::regex_search(markup_of(chart_of({{1, 2}, {2, nan}, {3, 4}})), std::regex("d=\"M[-0-9.]+ [-0-9.]+M")));
}

TEST_CASE("a band shows the range of joined values") {
  LineChart chart = chart_of({{1, 2}, {2, 3}});
  CHECK(markup_of(chart).find("opacity") == std::string::npos);
  chart.lines[0].points[1].high = 5;
  const std::string html = markup_of(chart);
  CHECK(html.find("opacity") != std::string::npos);
  CHECK(attribute(html, "data-y1") > 5);
}

TEST_CASE("moments are marked where the axis says, or at the plot's edge") {
  LineChart chart = chart_of({{1, 2}, {101, 3}});
  chart.marks = {{0.5, "before"}, {26, "resumed after step 25"}, {102, "after"}};
  const std::string html = markup_of(chart);
  CHECK(html.find("<path class=\"mark\" data-name=\"resumed after step 25\" d=\"M122 0V190\"/>") != std::string::npos);
  CHECK(html.find("data-name=\"before\" d=\"M0 0V190\"") != std::string::npos);
  CHECK(html.find("data-name=\"after\" d=\"M488 0V190\"") != std::string::npos);
}

}  // namespace
}  // namespace llmtrain
