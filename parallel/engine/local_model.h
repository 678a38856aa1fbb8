// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/graph/graph.h"
#include "core/model/parameter_store.h"
#include "core/model/stage.h"
#include "core/optim/adamw_optimizer.h"
#include "core/recipe/recipe.h"
#include "kernels/rope.h"
#include "parallel/plan/placement.h"

namespace llmtrain {

// Everything of the model that lives on this rank: its stages, their parameters, gradients and optimizer states.
// Weights start as the recipe's seed says.
class LocalModel {
 public:
  LocalModel(const Recipe& recipe, const at::Device& device);
  LocalModel(const LocalModel&) = delete;
  LocalModel& operator=(const LocalModel&) = delete;

  // A stage's parameters with what the optimizer keeps of them.
  struct StageState {
    std::unique_ptr<ParameterStore> store;
    std::unique_ptr<AdamwOptimizer> optimizer;
    std::unique_ptr<StageModule> stage;
  };

  const Graph& graph() const { return graph_; }
  const at::Device& device() const { return device_; }
  std::vector<StageState>& stages() { return stages_; }
  const std::vector<StageState>& stages() const { return stages_; }
  at::ScalarType compute_type() const { return types_.compute; }

 private:
  void add_stage(const Recipe& recipe, const Stage& placed);

  Graph graph_;
  at::Device device_;
  StoreTypes types_;
  std::optional<kernels::RopeTable> rope_;
  std::vector<StageState> stages_;
};

}  // namespace llmtrain
