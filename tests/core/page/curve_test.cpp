// SPDX-License-Identifier: Apache-2.0
#include "core/page/curve.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace llmtrain {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("few values are the points themselves") {
  Curve curve(8);
  CHECK(curve.empty());
  for (int i = 0; i < 8; ++i) curve.add(i, 10 * i);
  const auto points = curve.points();
  REQUIRE(points.size() == 8);
  for (int i = 0; i < 8; ++i) {
    const CurvePoint& point = points[static_cast<std::size_t>(i)];
    CHECK((point.x == i && point.y == 10 * i && point.low == 10 * i && point.high == 10 * i));
  }
}

TEST_CASE("many values become few points that keep means, ranges and the ends") {
  std::mt19937 random(1);
  std::normal_distribution<double> values(5, 2);
  for (const std::size_t most : {8U, 9U, 400U}) {
    for (const std::size_t count : {9U, 17U, 100U, 1000U, 12345U}) {
      Curve curve(most);
      double low = 1e9, high = -1e9, sum = 0;
      for (std::size_t i = 1; i <= count; ++i) {
        const double value = i == count / 2 ? 1000 : values(random);  // one spike
        low = std::min(low, value);
        high = std::max(high, value);
        sum += value;
        curve.add(static_cast<double>(i), value);
      }
      const auto points = curve.points();
      INFO(most << " points of " << count << " values");
      REQUIRE(points.size() <= most);
      if (count > most) CHECK(2 * points.size() >= most);
      CHECK(points.back().x == static_cast<double>(count));
      CHECK(std::ranges::min(points, {}, &CurvePoint::low).low == low);
      CHECK(std::ranges::max(points, {}, &CurvePoint::high).high == high);
      // Points but the last stand for equally many values, so their ranks weigh their means.
      double total = 0, before = 0;
      for (const CurvePoint& point : points) {
        total += point.y * (point.x - before);
        before = point.x;
        CHECK((point.low <= point.y && point.y <= point.high));
      }
      CHECK(total == Approx(sum));
    }
  }
}

TEST_CASE("what is not finite counts for no mean, and a point of it alone is none") {
  Curve curve(2);
  curve.add(1, not_a_number);
  CHECK(std::isnan(curve.points().front().y));
  curve.add(2, 4);
  curve.add(3, std::numeric_limits<double>::infinity());
  const auto points = curve.points();
  REQUIRE(points.size() == 2);
  CHECK((points[0].x == 2 && points[0].y == 4 && points[0].low == 4 && points[0].high == 4));
  CHECK(std::isnan(points[1].y));
  curve.add(4, -1);
  CHECK((curve.points()[1].y == -1 && curve.points()[1].high == -1));
}

}  // namespace
}  // namespace llmtrain
