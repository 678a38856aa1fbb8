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
#include "core/recipe/recipe.h"
#include "kernels/rope.h"
#include "parallel/plan/placement.h"
#include "parallel/shard/data_parallel.h"
#include "parallel/shard/sharded_parameters.h"

namespace llmtrain {

// Everything of the model that lives on this rank: its stages, their parameters, gradients and optimizer states.
// Weights start as the recipe's seed says.
class LocalModel {
 public:
  // `ranks` hold the same parameters and shard their states as `parallel.zero_stage` says; all build it together.
  LocalModel(const Recipe& recipe, const at::Device& device, const DataParallel& ranks = {});
  LocalModel(const LocalModel&) = delete;
  LocalModel& operator=(const LocalModel&) = delete;

  // A stage's parameters as its modules see them, the memory behind them, and the modules.
  struct StageState {
    std::unique_ptr<ParameterStore> store;
    std::unique_ptr<ShardedParameters> parameters;
    std::unique_ptr<StageModule> stage;
  };

  const Graph& graph() const { return graph_; }
  const at::Device& device() const { return device_; }
  std::vector<StageState>& stages() { return stages_; }
  const std::vector<StageState>& stages() const { return stages_; }
  at::ScalarType compute_type() const { return sharding_.compute; }
  const DataParallel& ranks() const { return ranks_; }

  // Starts to bring a stage's weights here, and lets them go again (ZeRO-3). A tied head on another stage still has the
  // token embedding after the embedding's stage is freed, until its own stage is.
  void gather(std::size_t stage) { stages_[stage].parameters->gather(); }
  enum class FreeAfter { forward, backward };
  bool gathers_for_use() const { return sharding_.zero_stage == 3 && ranks_.shards() > 1; }
  void free(std::size_t stage, FreeAfter pass);

 private:
  void add_stage(const Recipe& recipe, const Stage& placed);

  Graph graph_;
  at::Device device_;
  ShardingOptions sharding_;
  DataParallel ranks_;
  std::optional<kernels::RopeTable> rope_;
  std::vector<StageState> stages_;
};

}  // namespace llmtrain
