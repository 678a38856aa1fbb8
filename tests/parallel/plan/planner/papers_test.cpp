// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <map>

#include "parallel/plan/planner/planner.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

struct Claim {
  double parameters = 0;  // rounded as in the model's name in the paper
  std::int64_t devices = 0;
  bool fits = false;
};

// ZeRO's table 1 counts only model states: the full weights of the layer in use, its gradients and activations are
// additional, so that what the paper considers possible in 32 GB does not fit.
const std::map<std::string, Claim> claims = {
    {"breadth-first-52b", {52e9, 64, true}}, {"breadth-first-6.6b", {6.6e9, 64, true}},
    {"fp8-lm-7b", {7e9, 32, true}},          {"fp8-lm-13b", {13e9, 32, true}},
    {"fp8-lm-175b", {175e9, 128, true}},     {"gpt3-175b", {175e9, 1024, true}},
    {"ted-moe-40b", {40e9, 128, true}},      {"zero-128b", {128e9, 64, false}},
    {"zero-1t", {1e12, 1024, false}},
};

TEST_CASE("every paper's recipe can be planned, with the paper's sizes and verdict") {
  const auto names = paper_names();
  CHECK(names.size() == claims.size());
  for (const std::string& name : names) {
    INFO(name);
    const Claim& claim = claims.at(name);
    const Recipe recipe = paper(name);
    const PlanReport report = make_plan(recipe, profile_of(recipe)).report;
    CHECK(static_cast<double>(report.total_parameters) == Approx(claim.parameters).epsilon(0.03));
    CHECK(report.mesh.world() == claim.devices);
    CHECK(report.fits == claim.fits);
    CHECK(report.warnings.empty() == claim.fits);
  }
}

TEST_CASE("GPT-3 on 1,024 A100 agrees with SC21: 34 days for 300B tokens at 140 TFLOP/s per GPU") {
  const Recipe recipe = paper("gpt3-175b");
  const PlanReport report = make_plan(recipe, profile_of(recipe)).report;
  CHECK(report.run.tokens == Approx(300e9).epsilon(1e-3));
  CHECK(report.run.seconds / 86400 == Approx(34).epsilon(0.15));
  CHECK(report.throughput.hardware_tflops_per_device == Approx(140).epsilon(0.15));
}

TEST_CASE("breadth-first beats the other schedules for the 52B model at small batches") {
  const auto seconds = [](const char* schedule, const char* loops) {
    const Recipe recipe = paper("breadth-first-52b", {std::string("pipeline.schedule=\"") + schedule + "\"",
                                                      std::string("pipeline.loops=") + loops, "batch.global=8"});
    return make_plan(recipe, profile_of(recipe)).report.step.seconds;
  };
  const double breadth_first = seconds("breadth_first", "8");
  CHECK(breadth_first < 0.75 * seconds("gpipe", "1"));
  CHECK(breadth_first < 0.75 * seconds("1f1b", "1"));
  CHECK(breadth_first <= 1.001 * seconds("interleaved", "8"));
}

TEST_CASE("breadth-first gathers ZeRO-3's weights twice per step, ordinary FSDP twice per micro-batch") {
  const auto gathered = [](const char* schedule) {
    const Recipe recipe =
        paper("zero-128b", {"batch.global=256", std::string("pipeline.schedule=\"") + schedule + "\""});
    double bytes = 0;
    for (const CommunicationEntry& line : make_plan(recipe, profile_of(recipe)).report.communication)
      if (line.purpose == Purpose::data_parallel && line.collective == Collective::all_gather)
        bytes += line.bytes_per_rank_per_step;
    return bytes;
  };
  CHECK(gathered("breadth_first") > 0);
  CHECK(gathered("interleaved") == Approx(4 * gathered("breadth_first")));
}

// FP8-LM (arXiv 2310.18313), table 5: GiB of weights and gradients per rank and step, 63 to 65 % less with FP8. They
// follow from 1 + 1 bytes in place of 4 + 2 for the matrices of the layers, and 4 + 2 for embeddings at any level. The
// paper rounds to a tenth; what the plan of its 175B model lacks, 3 %, is not known.
TEST_CASE("FP8 takes as much off the traffic of weights and gradients as the paper's runs") {
  const auto gibibytes = [](const std::string& name, const std::string& level) {
    const Recipe recipe = paper(name, {"precision.fp8_level=\"" + level + "\""});
    double bytes = 0;
    for (const CommunicationEntry& line : make_plan(recipe, profile_of(recipe)).report.communication)
      if (line.purpose == Purpose::data_parallel) bytes += line.bytes_per_rank_per_step;
    return bytes / (1024.0 * 1024 * 1024);
  };
  struct Row {
    const char* name;
    double bf16, fp8;
  };
  for (const auto& [name, bf16, fp8] :
       {Row{"fp8-lm-7b", 37.2, 13.9}, {"fp8-lm-13b", 34.3, 12.4}, {"fp8-lm-175b", 23.4, 8.2}}) {
    INFO(name);
    CHECK(gibibytes(name, "off") == Approx(bf16).epsilon(0.015));
    CHECK(gibibytes(name, "O3") == Approx(fp8).epsilon(0.035));
  }
}

}  // namespace
}  // namespace llmtrain::test
