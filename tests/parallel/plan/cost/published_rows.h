// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "parallel/layout/layout.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/simulator/simulator.h"

namespace llmtrain::published {

// One measured value of tests/published/calibration.csv.
struct Row {
  std::string source;
  std::string hardware;
  std::string metric;
  std::string note;
  double value = 0;
  std::string recipe_text;
  bool held_out = false;  // every third row per source and metric: not used in the fit
};

std::vector<Row> read_rows(const std::filesystem::path& csv);

// What does not depend on profiles and constants, computed once per row.
struct Plan {
  explicit Plan(const Row& row, std::int64_t devices_per_node);

  Layout layout;
};

// The prediction in the row's unit; none for memory, which the tests of the memory model cover.
std::optional<double> predict(const Row& row, const Plan& plan, const ClusterProfile& profile,
                              const CostConstants& constants = {});

}  // namespace llmtrain::published
