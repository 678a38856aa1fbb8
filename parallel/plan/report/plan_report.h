// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/layout/mesh.h"
#include "parallel/plan/simulator/step_costs.h"
#include "parallel/plan/simulator/step_memory.h"

namespace llmtrain {

// Everything that `llmtrain plan` reports about a recipe. Times are in seconds, sizes in bytes; a device is one rank's
// GPU or CPU. docs/planner.md defines the bubble, model and hardware FLOPs, and the bytes.

// Of the rank with the most busy time. The bubble is `seconds` minus all other parts (step_split.h).
struct PlannedStep {
  double seconds = 0;
  double compute_seconds = 0;               // passes, without the collectives inside them
  double recompute_seconds = 0;             // part of compute_seconds
  double tensor_communication_seconds = 0;  // collectives inside passes: tensor, sequence, context, expert
  double optimizer_seconds = 0;
  double overhead_seconds = 0;
  double bubble_fraction = 0;                // of the window of passes, not of the whole step
  double exposed_communication_seconds = 0;  // everything that no computation hides, collectives inside passes included
};

struct PlannedThroughput {
  double tokens_per_second = 0;
  double tokens_per_second_per_device = 0;
  double samples_per_second = 0;
  double model_tflops_per_device = 0;
  double hardware_tflops_per_device = 0;
  double mfu = 0;
  double hfu = 0;
};

struct PlannedRun {
  double tokens = 0;
  double seconds = 0;
  double device_hours = 0;
  std::optional<double> price;  // in the currency of the profile's price_per_device_hour; none if that is null
};

// One entry per pipeline rank: the ranks of its tensor, context and data groups are identical.
struct PlannedRank {
  std::int64_t rank = 0;   // the first of the identical ranks
  std::int64_t count = 1;  // how many are identical
  std::int64_t pipeline_rank = 0;
  double peak_bytes = 0;
  MemoryBytes bytes;      // each category's high-water mark
  double host_bytes = 0;  // offloaded
  std::string peak_instruction;
};

struct PlannedCommunication {
  CommunicationEntry entry;
  double exposed_seconds = 0;
};

// A change of one recipe key that makes the plan fit or faster, with the resulting figures.
struct PlanSuggestion {
  std::string change;  // "parallel.zero_stage=1", as --set takes it
  double step_seconds = 0;
  double peak_bytes = 0;
  bool fits = false;
};

struct PlanReport {
  Recipe recipe;  // resolved
  std::string profile;
  double device_memory_bytes = 0;  // 0: the profile states none
  bool fits = false;
  std::vector<std::string> warnings;
  std::int64_t total_parameters = 0;
  std::int64_t active_parameters = 0;
  std::int64_t embedding_parameters = 0;
  Mesh mesh;
  PlannedStep step;
  PlannedThroughput throughput;
  PlannedRun run;
  std::vector<PlannedRank> ranks;
  std::vector<PlannedCommunication> communication;
  std::vector<PlanSuggestion> suggestions;  // at most three, fastest first; empty unless requested
};

}  // namespace llmtrain
