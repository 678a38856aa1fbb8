// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "parallel/plan/accuracy/verdict.h"
#include "parallel/plan/published/rows.h"
#include "tests/support/source_folder.h"

namespace llmtrain::published {
namespace {

const std::filesystem::path root = test::source_folder();

// Mean absolute errors per source and metric, over all rows and over the held-out rows.
struct Score {
  double sum = 0;
  double held_out_sum = 0;
  double largest = 0;
  int rows = 0;
  int held_out_rows = 0;

  void add(double error, bool held_out) {
    sum += error;
    largest = std::max(largest, error);
    ++rows;
    if (!held_out) return;
    held_out_sum += error;
    ++held_out_rows;
  }
  double mean() const { return sum / rows; }
  double held_out_mean() const { return held_out_rows > 0 ? held_out_sum / held_out_rows : 0; }
};

double error_of(const Row& row, double predicted) {
  if (row.metric == "bubble_fraction") return std::abs(predicted - row.value);
  const bool is_size = row.metric == "data_parallel_communication" || row.metric == "peak_memory";
  const bool is_rate = row.metric != "step_seconds" && !is_size;
  return std::abs((is_rate ? row.value / predicted : predicted / row.value) - 1);
}

std::string key_of(const Row& row) {
  if (row.metric == "bubble_fraction" || row.metric == "data_parallel_communication") return row.metric;
  const bool both = row.source.starts_with("llm-foundry");
  return row.source.substr(0, 24) + (both ? " " + row.hardware : "") + (row.metric == "peak_memory" ? " memory" : "");
}

// A row that a recipe states and the metric of which plans predict, and what its plan says.
struct PlannedRow {
  Row row;
  Mesh mesh;
  double predicted = 0;
  double memory_bytes = 0, memory_share = 0;  // of a device, and of it what the plan needs
  std::optional<PlanError> memory_error;      // as the plan states it
};

std::vector<PlannedRow> plan_rows() {
  std::vector<PlannedRow> planned;
  const Shelf shelf(root / "recipes");
  for (const char* file : {"calibration.csv", "programs.csv", "llmtrain.csv", "trainers.csv", "megatron-bridge.csv"}) {
    for (const Row& row : read_rows(root / "recipes/published" / file)) {
      if (!row.inexact.empty()) continue;
      const ClusterProfile profile = shelf.profile_of(row);
      const auto layouts = layouts_of(row, profile);
      const auto predicted = predict(row, layouts, profile);
      if (!predicted) continue;
      planned.push_back({row, layouts.front()->mesh(), *predicted, profile.device.memory_bytes,
                         memory_share(layouts, profile), profile.accuracy.memory});
    }
  }
  return planned;
}

// All of them are planned once for all tests here, which takes seconds.
const std::vector<PlannedRow>& planned_rows() {
  static const std::vector<PlannedRow> rows = plan_rows();
  return rows;
}

std::map<std::string, Score> score() {
  std::map<std::string, Score> scores;
  for (const auto& [row, mesh, predicted, bytes, share, error] : planned_rows())
    scores[key_of(row)].add(error_of(row, predicted), row.held_out);
  return scores;
}

// The error that recipes/scores/accuracy.json should state of these: the root mean square, or what makes twice the
// stated error hold nine of ten.
double stated_error(std::vector<double> errors) {
  std::ranges::sort(errors);
  double squares = 0;
  for (const double error : errors) squares += error * error;
  const auto rows = static_cast<double>(errors.size());
  return std::max(std::sqrt(squares / rows), errors[static_cast<std::size_t>(std::ceil(0.9 * rows)) - 1] / 2);
}

TEST_CASE("the errors that plans state are those of the scored rows", "[exhaustive]") {
  std::map<std::string, std::map<std::string, std::vector<double>>> found;
  for (const PlannedRow& planned : planned_rows()) {
    const Row& row = planned.row;
    if (row.metric == "bubble_fraction" || row.metric == "data_parallel_communication") continue;
    auto& quantity = found[row.metric == "peak_memory" ? "memory" : "step"];
    for (const std::string& program : {row.program, std::string("all")})
      quantity[program].push_back(error_of(row, planned.predicted));
  }
  const auto stated = nlohmann::json::parse(read_file(root / "recipes/scores/accuracy.json"));
  for (const auto& [quantity, programs] : found) {
    CHECK(stated.at(quantity).at("by_program").size() + 1 == programs.size());
    for (const auto& [program, errors] : programs) {
      INFO(quantity << " of " << program << ": scripts/score_planner --accuracy writes what follows from the rows");
      const auto& said =
          program == "all" ? stated.at(quantity).at("all") : stated.at(quantity).at("by_program").at(program);
      CHECK(said.at("rows") == errors.size());
      // Half a point: what a reader of "± 6 %" may expect to hold.
      CHECK(std::abs(said.at("error").get<double>() - stated_error(errors)) < 0.005);
    }
  }
}

TEST_CASE("no plan says of a run that ran that it does not fit", "[exhaustive]") {
  int tight = 0;
  for (const auto& [row, mesh, predicted, limit, share, error] : planned_rows()) {
    // Rows of parts of the memory also say what would have been needed.
    if (!row.inexact_memory.empty()) continue;
    INFO(row.source << ": " << row.note);
    const MemoryVerdict verdict = memory_verdict(limit * share, limit, error);
    CHECK(verdict != MemoryVerdict::does_not_fit);
    // Nor that it needs more than there is, within the error: 25 did before programs stated what they keep of logits.
    CHECK(share <= 1);
    tight += verdict == MemoryVerdict::tight ? 1 : 0;
  }
  // A test of errors so wide that they allow everything would say nothing.
  CHECK(tight < 60);
}

// A program's fact that holds for few tensor ranks alone (what it keeps of gathered tensors, or what its allocator
// holds beside tensors) shows here, where the mean over all rows hides it: errors of either sign cancel.
TEST_CASE("the memory of pipelines' first ranks is right with few and with many tensor ranks", "[exhaustive]") {
  std::map<bool, std::vector<double>> errors;
  for (const auto& [row, mesh, predicted, bytes, share, error] : planned_rows()) {
    if (row.is_of_first && mesh.pipeline > 1) errors[mesh.tensor >= 8].push_back(predicted / row.value - 1);
  }
  CHECK(errors[false].size() == 41);
  CHECK(errors[true].size() == 13);
  for (const auto& [many, list] : errors) {
    double sum = 0;
    for (const double error : list) sum += error;
    INFO((many ? "eight tensor ranks and more" : "fewer than eight tensor ranks"));
    // Half of the spread of repeated runs of one layout, which is 12 %.
    CHECK(std::abs(sum / static_cast<double>(list.size())) < 0.06);
  }
}

struct Bound {
  const char* key;
  int rows;
  double mean;
  double held_out_mean;
};

// Output of scripts/score_planner when the constants were fitted, rounded up: a change that increases one of them needs
// a justification.
constexpr Bound published_bounds[] = {
    {"arXiv 2205.05198 Table 5", 4, 0.025, 0.047},
    {"SC21 Megatron-LM Table 1", 5, 0.03, 0.045},
    {"SC21 Megatron-LM Table 2", 6, 0.025, 0.019},
    {"FP8-LM (arXiv 2310.18313", 4, 0.031, 0.025},
    {"FP8-LM (arXiv 2310.18313 memory", 4, 0.047, 0.04},
    {"data_parallel_communication", 4, 0.005, 0.003},
    {"Zero Bubble (arXiv 2401.", 12, 0.013, 0.012},
    {"Zero Bubble (arXiv 2401. memory", 4, 0.056, 0.109},
    {"bubble_fraction", 12, 0.004, 0.003},
    {"Megatron-LM README H100 ", 5, 0.03, 0.009},
    {"vTrain ground truth (mul", 50, 0.073, 0.051},
    {"vTrain ground truth (sin", 113, 0.058, 0.06},
    {"llm-foundry benchmarking h100-sxm-80gb", 24, 0.035, 0.051},
    {"llm-foundry benchmarking a100-80gb", 22, 0.047, 0.064},
    {"torchtitan benchmarks/ll", 17, 0.063, 0.055},
    {"torchtitan benchmarks/ll memory", 17, 0.05, 0.067},
    {"NeMo 24.12 performance s", 12, 0.048, 0.053},
    {"Megatron MoE model zoo /", 2, 0.046, 0},
    {"BigScience tr11-176B chr", 8, 0.032, 0.02},
    {"BigScience tr11-176B chr memory", 8, 0.037, 0.063},
    {"IBM fms-fsdp README", 4, 0.02, 0.011},
    {"IBM fms-fsdp README, A10", 4, 0.052, 0.081},
    {"Fast-LLM docs", 2, 0.095, 0},
    {"FlashAttention training ", 3, 0.042, 0.013},
    {"BigScience chronicles, f", 49, 0.043, 0.048},
    {"BigScience chronicles, f memory", 30, 0.063, 0.071},
    {"llmtrain on one H200 (1,", 6, 0.031, 0.025},
    {"llmtrain on one H200 (1, memory", 7, 0.01, 0.007},
    {"nanotron ultrascale-play", 26, 0.096, 0.1},
    {"nanotron ultrascale-play memory", 26, 0.079, 0.065},
    {"IST-DASLab/llmq benchmar", 14, 0.03, 0.023},
    {"NVIDIA/dgxc-benchmarking", 20, 0.069, 0.068},
    {"karpathy/llm.c scripts/r", 5, 0.041, 0.016},
    {"pytorch/torchtune README", 3, 0.078, 0.096},
    {"pytorch/torchtune README memory", 3, 0.028, 0.016},
    {"Aleph-Alpha/NeurIPS-WANT", 67, 0.087, 0.077},
    {"MT-NLG (arXiv 2201.11990", 3, 0.017, 0.024},
    {"GPT-NeoX-20B (arXiv 2204", 1, 0.173, 0},
    {"NVIDIA-NeMo/Automodel do", 3, 0.087, 0},
    {"NVIDIA/JAX-Toolbox docs/", 1, 0.037, 0},
    {"QwenLM/Qwen README, prof", 18, 0.069, 0.069},
    {"QwenLM/Qwen README, prof memory", 18, 0.044, 0.037},
    {"NVIDIA-NeMo/Automodel Lo", 6, 0.045, 0.051},
    {"Megatron Bridge, dense m", 66, 0.094, 0.099},
    {"Megatron Bridge, experts", 41, 0.155, 0.202},
    {"nanotron sweep (ultrasca", 71, 0.1, 0.089},
    {"nanotron sweep (ultrasca memory", 71, 0.072, 0.065},
};

TEST_CASE("predictions stay as close to published measurements as they were", "[exhaustive]") {
  const auto scores = score();
  CHECK(scores.size() == std::size(published_bounds));
  for (const Bound& bound : published_bounds) {
    INFO(bound.key);
    REQUIRE(scores.contains(bound.key));
    const Score& reached = scores.at(bound.key);
    CHECK(reached.rows == bound.rows);
    CHECK(reached.mean() <= bound.mean);
    CHECK(reached.held_out_mean() <= bound.held_out_mean);
  }
  CHECK(scores.at("bubble_fraction").largest <= 0.02);
}

}  // namespace
}  // namespace llmtrain::published
