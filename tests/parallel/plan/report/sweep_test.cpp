// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/sweep.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "core/json/json_text.h"
#include "tests/parallel/plan/report/sample_report.h"

namespace llmtrain {
namespace {

SweepPoint point(std::vector<std::string> values, double speed, bool fits) {
  PlanReport report = test::sample_report();
  report.throughput.tokens_per_second_per_device = speed;
  report.fits = fits;
  return {std::move(values), std::move(report), ""};
}

SweepPoint refused(std::vector<std::string> values, std::string reason) {
  return {std::move(values), std::nullopt, std::move(reason)};
}

Sweep sample_sweep() {
  return {"gpt3-175b",
          {{"parallel.tensor", {"4", "8"}}, {"batch.micro", {"1", "2"}}},
          {point({"4", "1"}, 100, true), point({"4", "2"}, 400, false), point({"8", "1"}, 200, true),
           refused({"8", "2"}, "/batch/micro: " + std::string(200, 'x'))},
          false};
}

}  // namespace

TEST_CASE("the best of a sweep is the fastest per device that fits") {
  const Sweep sweep = sample_sweep();
  CHECK(best_point(sweep) == &sweep.points[2]);
  Sweep none = sample_sweep();
  for (SweepPoint& point : none.points)
    if (point.report) point.report->fits = false;
  CHECK(best_point(none) == nullptr);
  CHECK_THAT(sweep_text(none, {}), !Catch::Contains("best"));
}

TEST_CASE("a tight plan is the best of a sweep only where none with room is about as fast") {
  Sweep sweep = sample_sweep();
  sweep.points[0].report->throughput.tokens_per_second_per_device = 205;
  sweep.points[0].report->ranks[0].peak_bytes = 0.99 * sweep.points[0].report->device_memory_bytes;
  CHECK(best_point(sweep) == &sweep.points[2]);
  CHECK_THAT(sweep_text(sweep, {}), Catch::Contains("  tight\n") && Catch::Contains("\ntight: "));
  sweep.points[0].report->throughput.tokens_per_second_per_device = 300;
  CHECK(best_point(sweep) == sweep.points.data());
  CHECK_THAT(sweep_text(sweep, {}), Catch::Contains("\n*       4      1 ") && Catch::Contains("  tight\n"));
  CHECK(parse_json(sweep_json(sweep)).value["plans"][0]["verdict"] == "tight");
}

TEST_CASE("a sweep says that its data ranks are not those of the recipe") {
  Sweep sweep = sample_sweep();
  CHECK_THAT(sweep_text(sweep, {}), !Catch::Contains("\ndata: "));
  CHECK(parse_json(sweep_json(sweep)).value["derives_data"] == false);
  sweep.derives_data = true;
  CHECK_THAT(sweep_text(sweep, {}), Catch::Contains("\ndata: what the other degrees leave"));
  CHECK(parse_json(sweep_json(sweep)).value["derives_data"] == true);
}

TEST_CASE("axes are named by their last word unless two share it") {
  CHECK(short_names({{"parallel.tensor", {}}, {"batch.micro", {}}}) == std::vector<std::string>{"tensor", "micro"});
  CHECK(short_names({{"a.loops", {}}, {"b.loops", {}}, {"seed", {}}}) ==
        std::vector<std::string>{"a.loops", "b.loops", "seed"});
}

TEST_CASE("a sweep's table has a line per plan, none wider than a page") {
  const std::string text = sweep_text(sample_sweep(), {});
  CHECK_THAT(text, Catch::StartsWith(
                       "gpt3-175b by parallel.tensor × batch.micro: 3 plans, 2 fit, 1 refused\n\n   tensor  micro"));
  CHECK(std::ranges::count(text, '\n') == 9);
  CHECK_THAT(text, Catch::Contains("  does not fit\n*       8      1 "));
  CHECK_THAT(text, Catch::Contains("\n        8      2  refused: /batch/micro: xxx"));
  for (const std::size_t width : {60, 80, 100, 160}) {
    std::istringstream lines(sweep_text(sample_sweep(), {TextColour::off, width}));
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(columns(line) <= width);
    }
  }
}

TEST_CASE("a sweep's JSON has the values as JSON, and words as strings") {
  Sweep sweep = sample_sweep();
  sweep.axes[1].values = {"[1,3]", "layers"};
  sweep.points[0].values[1] = "[1,3]";
  sweep.points[1].values[1] = "layers";
  const Json json = parse_json(sweep_json(sweep)).value;
  CHECK(json["best"] == 2);
  CHECK(json["axes"][1]["values"] == Json::array({Json::array({1, 3}), "layers"}));
  CHECK(json["plans"][0]["set"] == Json{{"parallel.tensor", 4}, {"batch.micro", Json::array({1, 3})}});
  CHECK(json["plans"][1]["set"]["batch.micro"] == "layers");
  CHECK(json["plans"][0]["refused"].is_null());
  CHECK(json["plans"][0]["peak_bytes"] == 60LL << 30);
  CHECK(json["plans"][3].size() == 2);
}

}  // namespace llmtrain
