// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "parallel/plan/planner/planner.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/report/report.h"
#include "plan_agreement.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

TEST_CASE("the figures of a paper's report agree with each other") {
  for (const std::string& name : paper_names()) {
    INFO(name);
    const Recipe recipe = paper(name);
    const auto wrong = disagreements(make_plan(recipe, profile_of(recipe)), profile_of(recipe));
    CHECK(wrong == std::vector<std::string>{});
  }
}

TEST_CASE("the parts of a step sum to its time") {
  for (const char* name : {"gpt3-175b", "breadth-first-52b", "fp8-lm-175b", "ted-moe-40b"}) {
    INFO(name);
    const Recipe recipe = paper(name);
    const PlannedStep step = make_plan(recipe, profile_of(recipe)).report.step;
    double sum = 0;
    for (const StepShare& share : split_step(step)) sum += share.seconds;
    CHECK(sum == Approx(step.seconds));
  }
}

TEST_CASE("hardware FLOPs add what is recomputed, by SC21's and Korthikanti's formulas") {
  const auto ratio = [](const char* recompute) {
    const Recipe recipe = paper("gpt3-175b", {std::string("memory.recompute=") + recompute});
    const PlannedThroughput throughput = make_plan(recipe, profile_of(recipe)).report.throughput;
    CHECK(throughput.hfu / throughput.mfu ==
          Approx(throughput.hardware_tflops_per_device / throughput.model_tflops_per_device));
    return throughput.hardware_tflops_per_device / throughput.model_tflops_per_device;
  };
  const double s = 2048, h = 12288, layers = 96, vocabulary = 51200;
  const double model = 72 * (1 + s / (6 * h) + vocabulary / (12 * layers * h));
  CHECK(ratio("none") == Approx(1));
  CHECK(ratio("selective") == Approx(72 * (1 + s / (3 * h) + vocabulary / (12 * layers * h)) / model).margin(0.02));
  CHECK(ratio("full") == Approx(96 * (1 + s / (6 * h) + vocabulary / (16 * layers * h)) / model).epsilon(1e-3));
}

TEST_CASE("the bubble of equal stages is (p - 1) / (m v + p - 1)") {
  // A head that costs no more than an embedding: vocabulary 256 with layers of width 8192.
  const auto bubble = [](const char* schedule, int loops, int micros) {
    const Recipe recipe = paper(
        "breadth-first-52b",
        {"model.vocab_size=256", "parallel.tensor=1", "parallel.sequence=false", "cluster.nodes=1",
         "cluster.devices_per_node=8", "memory.recompute=none", std::string("pipeline.schedule=\"") + schedule + "\"",
         "pipeline.loops=" + std::to_string(loops), "batch.global=" + std::to_string(micros)});
    return make_plan(recipe, profile_of(recipe)).report.step.bubble_fraction;
  };
  for (const int micros : {8, 16, 32}) {
    INFO(micros);
    CHECK(bubble("gpipe", 1, micros) == Approx(7.0 / (micros + 7)).margin(0.02));
    CHECK(bubble("1f1b", 1, micros) == Approx(7.0 / (micros + 7)).margin(0.02));
    CHECK(bubble("interleaved", 8, micros) == Approx(7.0 / (micros * 8 + 7)).margin(0.03));
    CHECK(bubble("breadth_first", 8, micros) == Approx(7.0 / (micros * 8 + 7)).margin(0.03));
  }
}

TEST_CASE("a report is JSON that names every rank's memory") {
  const Recipe recipe = paper("gpt3-175b");
  const PlanReport report = make_plan(recipe, profile_of(recipe)).report;
  const auto json = nlohmann::json::parse(report_json(report));
  CHECK(json["mesh"]["world"] == 1024);
  CHECK(json["ranks"].size() == 16);
  CHECK(json["step"]["seconds"].get<double>() == report.step.seconds);
}

TEST_CASE("plans are deterministic") {
  const Recipe recipe = paper("ted-moe-40b");
  const ClusterProfile cluster = profile_of(recipe);
  CHECK(report_json(make_plan(recipe, cluster).report) == report_json(make_plan(recipe, cluster).report));
}

}  // namespace
}  // namespace llmtrain::test
