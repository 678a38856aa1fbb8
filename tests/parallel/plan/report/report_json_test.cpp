// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/report.h"

#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/json/json_text.h"
#include "core/recipe/recipe_io.h"
#include "tests/parallel/plan/report/sample_report.h"

namespace llmtrain {
namespace {

Json parsed(const PlanReport& report) {
  const JsonText text = parse_json(report_json(report));
  REQUIRE(text.error.empty());
  REQUIRE(text.duplicates.empty());
  return text.value;
}

Json at(const Json& json, const std::string& pointer) { return json.at(Json::json_pointer(pointer)); }

void check_numbers(const Json& json, const std::string& section, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    INFO(section << '/' << name);
    CHECK(at(json, section + '/' + name).is_number());
  }
}

TEST_CASE("the JSON has every documented field with its type") {
  const Json json = parsed(test::sample_report());
  CHECK(json.at("recipe").is_object());
  CHECK(json.at("fits").is_boolean());
  CHECK(json.at("warnings").at(0).is_string());
  check_numbers(json, "/parameters", {"total", "active", "embedding"});
  check_numbers(json, "/mesh", {"world", "data", "tensor", "pipeline", "context", "expert"});
  check_numbers(json, "/step", {"seconds", "compute_seconds", "bubble_fraction", "exposed_communication_seconds"});
  check_numbers(json, "/throughput",
                {"tokens_per_second", "tokens_per_second_per_device", "samples_per_second", "model_tflops_per_device",
                 "hardware_tflops_per_device", "mfu", "hfu"});
  check_numbers(json, "/run", {"tokens", "seconds", "device_hours"});
  CHECK(at(json, "/run/price").is_null());
  CHECK(at(json, "/run/currency").is_null());
  check_numbers(json, "/ranks/0", {"rank", "count", "peak_bytes"});
  check_numbers(
      json, "/ranks/15/bytes",
      {"weights", "gradients", "master_weights", "optimizer", "activations", "buffers", "communication", "framework"});
  CHECK(at(json, "/ranks/0/peak_instruction").is_string());
  check_numbers(json, "/communication/0", {"ranks", "bytes_per_rank_per_step", "seconds", "exposed_seconds"});
  for (const char* name : {"collective", "purpose", "group"}) CHECK(at(json, "/communication/0").at(name).is_string());
}

TEST_CASE("the JSON states the report's values") {
  const Json json = parsed(test::sample_report());
  CHECK(json.at("profile") == "a100-80gb");
  CHECK(json.at("device_memory_bytes") == 85899345920);
  CHECK(json.at("fits") == true);
  CHECK(json.at("verdict") == "fits");
  CHECK(at(json, "/accuracy/step") == Json{{"error", 0.052}, {"rows", 12}, {"program", "nemo"}});
  CHECK(at(json, "/accuracy/memory") == Json{{"error", 0.1}, {"rows", 33}, {"program", nullptr}});
  CHECK(at(json, "/suggestions/0/tight") == true);
  CHECK(at(json, "/suggestions/1/tight") == false);
  CHECK(at(json, "/parameters/total") == 174591000000);
  CHECK(at(json, "/parameters/embedding") == 654311424);
  CHECK(at(json, "/mesh/world") == 1024);
  CHECK(at(json, "/mesh/pipeline") == 16);
  CHECK(at(json, "/step/seconds") == 25);
  CHECK(at(json, "/step/recompute_seconds") == 5);
  CHECK(at(json, "/step/tensor_communication_seconds") == 2.5);
  CHECK(at(json, "/step/optimizer_seconds") == 0.75);
  CHECK(at(json, "/step/overhead_seconds") == 0.25);
  CHECK(at(json, "/step/bubble_fraction") == 0.072);
  CHECK(at(json, "/throughput/mfu") == 0.425);
  CHECK(at(json, "/throughput/hfu") == 0.561);
  CHECK(at(json, "/run/tokens").dump() == "300000000000");
  CHECK(json.at("ranks").size() == 16);
  CHECK(at(json, "/ranks/1/rank") == 64);
  CHECK(at(json, "/ranks/1/count") == 64);
  CHECK(at(json, "/ranks/0/peak_bytes").dump() == "64424509440");
  CHECK(at(json, "/ranks/0/bytes/weights") == 2684354560);
  CHECK(at(json, "/ranks/0/bytes/framework") == 1610612736);
  CHECK(at(json, "/ranks/2/peak_instruction") == "Backward stage 2 micro 3");
  CHECK(at(json, "/communication/1/collective") == "all_reduce");
  CHECK(at(json, "/communication/1/purpose") == "data_parallel");
  CHECK(at(json, "/communication/1/bytes_per_rank_per_step") == 9395240960);
  CHECK(at(json, "/communication/2/exposed_seconds") == 0.2);
  CHECK(at(json, "/suggestions/0/change") == "memory.recompute=selective");
}

TEST_CASE("the JSON says tight near the limit, and nothing of errors that are not known") {
  PlanReport report = test::sample_report();
  report.ranks[0].peak_bytes = 0.95 * report.device_memory_bytes;
  CHECK(parsed(report).at("verdict") == "tight");
  CHECK(parsed(report).at("fits") == true);
  report.accuracy = {};
  CHECK(parsed(report).at("verdict") == "fits");
  CHECK(at(parsed(report), "/accuracy/step").is_null());
}

TEST_CASE("the recipe in the JSON can be read again") {
  const PlanReport report = test::sample_report();
  const std::string recipe = parsed(report).at("recipe").dump();
  CHECK(parse_recipe(recipe, "again", ".") == report.recipe);
}

TEST_CASE("a report without warnings, traffic and suggestions has empty lists") {
  PlanReport report = test::sample_report();
  report.warnings.clear();
  report.communication.clear();
  report.suggestions.clear();
  const Json json = parsed(report);
  for (const char* name : {"warnings", "communication", "suggestions"}) CHECK(json.at(name) == Json::array());
}

TEST_CASE("a single warning is a list") {
  PlanReport report = test::sample_report();
  report.warnings = {"\"quoted\"\n\xff"};
  CHECK(parsed(report).at("warnings") == Json::array({"\"quoted\"\n\uFFFD"}));
}

TEST_CASE("a number that is not finite is reported, not written") {
  PlanReport report = test::sample_report();
  report.ranks[3].bytes[MemoryCategory::activations] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH(report_json(report), Catch::Contains("/ranks/3/bytes/activations"));
  report = test::sample_report();
  report.throughput.mfu = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(report_json(report), Catch::Contains("/throughput/mfu"));
}

}  // namespace
}  // namespace llmtrain
