// SPDX-License-Identifier: Apache-2.0
// Steps of Llama 3's 8B model within a budget of one GPU's memory, as dataflow measured them (als244/dataflow,
// tests/published/dataflow.csv), beside what policies of memory are planned to take.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "parallel/plan/planner/planner.h"
#include "parallel/plan/policies/policy_prices.h"
#include "parallel/plan/published/row_recipes.h"
#include "tests/parallel/plan/planner/planner_case.h"
#include "tests/parallel/plan/policies/policy_case.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

constexpr double gib = 1 << 30;
constexpr double never = std::numeric_limits<double>::infinity();

// Weights, gradients and moments in bf16 are also llmq's, whose fused kernels stand for dataflow's.
constexpr const char* llama_text = R"({
  "model": {"architecture": "llama", "layers": 32, "hidden_size": 4096, "heads": 32, "kv_heads": 8,
            "ffn_hidden_size": 14336, "vocab_size": 128256},
  "training": {"steps": 10, "clip_norm": 0},
  "precision": {"compute": "bf16", "gradients": "bf16"},
  "cluster": {"program": "llmq", "nodes": 1, "devices_per_node": 1, "device": "cuda"}
})";

struct Cell {
  std::string device;
  double budget_bytes = 0, measured_seconds = 0;
  bool is_one_pass = false;  // a single micro-batch, so that copies take most of the time
  std::vector<Override> overrides;
};

std::vector<Cell> cells() {
  std::vector<Cell> read;
  for (const auto& row : published::read_columns(source_folder() / "tests/published/dataflow.csv")) {
    Cell& cell = read.emplace_back();
    cell.device = row.at("device");
    cell.budget_bytes = std::stod(row.at("budget_gib")) * gib;
    const double tokens = std::stod(row.at("global")) * std::stod(row.at("sequence"));
    cell.measured_seconds = tokens / std::stod(row.at("tokens_per_second"));
    cell.is_one_pass = row.at("global") == row.at("micro");
    cell.overrides = {"cluster.profile=" + cell.device, "model.max_sequence_length=" + row.at("sequence"),
                      "batch.micro=" + row.at("micro"), "batch.global=" + row.at("global")};
  }
  return read;
}

struct Case {
  Recipe recipe;
  ClusterProfile cluster;
  double limit = 0;  // dataflow's budget is that of tensors alone, beside CUDA's context
};

Case case_of(const Cell& cell, const std::string& recomputed) {
  std::vector<Override> overrides = cell.overrides;
  overrides.push_back("memory.recompute=" + recomputed);
  Case made{parse_recipe(llama_text, "llama", ".", overrides), {}, 0};
  made.cluster = profile_of(made.recipe);
  // Each way to the host while both are busy, as dataflow measured it and prices its plans.
  made.cluster.device.pcie_bandwidth = cell.device == "rtx-5090" ? 25.4e9 : 50.8e9;
  const Plan plan = make_plan(made.recipe, made.cluster);
  made.limit = cell.budget_bytes + fullest_rank(plan.report).bytes[MemoryCategory::framework];
  return made;
}

// By what the planner's own policy tries, a layer a stage, without the host's updates, which dataflow has not.
double seconds_on_device(const Case& of) {
  double seconds = never;
  for (const PipelineSchedule schedule : {PipelineSchedule::breadth_first, PipelineSchedule::interleaved}) {
    Recipe staged = of.recipe;
    staged.pipeline.schedule = schedule;
    staged.pipeline.loops = staged.model.layers;
    const Plan plan = make_plan(staged, of.cluster);
    for (const Eviction eviction : {Eviction::furthest_next_use, Eviction::most_idle_bytes}) {
      const ResidencyPolicy residency{eviction, false, true, false};
      const PolicyChoice choice{schedule, staged.pipeline.loops, residency, {TaskPlace::device, true}};
      double least = 0;
      const auto price = price_choice(plan, choice, of.limit, of.cluster.device.pcie_bandwidth, {}, least);
      if (price) seconds = std::min(seconds, price->step_seconds);
    }
  }
  return seconds;
}

struct Steps {
  double own = never;        // the planner's own policy
  double on_device = never;  // with updates on the device alone
  double least = never;      // the share of the limit that would be enough, where it is not
};

// The fastest with some or all of the layers recomputed.
Steps planned(const Cell& cell) {
  std::vector<std::string> recomputed = {"full"};
  if (cell.device != "rtx-5090") recomputed = {R"({"full": ["0-15"]})", R"({"full": ["0-23"]})", "full"};
  if (cell.is_one_pass) recomputed = {"none", "full"};
  Steps steps;
  for (const std::string& layers : recomputed) {
    const Case of = case_of(cell, layers);
    const PolicyPrice own = price_policies(of.recipe, of.cluster, 1, of.limit).prices.back();
    if (own.choice) {
      steps.own = std::min(steps.own, own.step_seconds);
    } else {
      steps.least = std::min(steps.least, own.least_bytes / of.limit);
    }
    if (cell.is_one_pass) steps.on_device = std::min(steps.on_device, seconds_on_device(of));
  }
  return steps;
}

}  // namespace

// The errors are those that docs/planner.md states, rounded up to a whole percent.
TEST_CASE("steps within a budget that dataflow measured are planned with the stated error", "[exhaustive]") {
  int h100 = 0, one_pass = 0;
  for (const Cell& cell : cells()) {
    const Steps steps = planned(cell);
    const double own = steps.own / cell.measured_seconds - 1, device = steps.on_device / cell.measured_seconds - 1;
    INFO(cell.device << " " << cell.overrides[2] << " within " << cell.budget_bytes / gib << " GiB: measured "
                     << cell.measured_seconds << " s, planned " << steps.own << " s, on the device " << steps.on_device
                     << " s");
    if (cell.is_one_pass) {
      // Without the host's update a plan has the copies that dataflow's has; with it, fewer.
      ++one_pass;
      CHECK((device > 0.05 && device < 0.19));
      CHECK((own > -0.26 && own < -0.16));
    } else if (cell.device == "rtx-5090") {
      // Passes, whose rates on this device are an H100's relative to its peak, take most of the time.
      CHECK((own > 0.08 && own < 0.37));
    } else if (cell.budget_bytes < 9 * gib) {
      CHECK(steps.own == never);
      CHECK((steps.least > 1 && steps.least < 1.03));
    } else {
      // dataflow recomputes some layers of some micro-batches, a recipe the same ones of all.
      ++h100;
      CHECK((own > 0.06 && own < 0.15));
    }
  }
  CHECK((h100 == 6 && one_pass == 4));
}

}  // namespace llmtrain::test
