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
#include "parallel/shard/rank_groups.h"
#include "parallel/shard/sharded_parameters.h"

namespace llmtrain {

// Parameters as the modules see them, and the memory behind them.
struct ParameterUnit {
  std::unique_ptr<ParameterStore> store;
  std::unique_ptr<ShardedParameters> parameters;
};

// Everything of the model that lives on this rank: its stages, their parameters, gradients and optimizer states.
// Weights start as the recipe's seed says. Stages are named by their index in the whole model.
class LocalModel {
 public:
  // The ranks hold stages of the model as `parallel` says; all build it together.
  LocalModel(const Recipe& recipe, const at::Device& device, const RankGroups& groups = {});
  LocalModel(const LocalModel&) = delete;
  LocalModel& operator=(const LocalModel&) = delete;

  struct StageState : ParameterUnit {
    std::unique_ptr<StageModule> module;
  };

  const Graph& graph() const { return graph_; }
  const at::Device& device() const { return device_; }
  at::ScalarType compute_type() const { return sharding_.compute; }
  const RankGroups& groups() const { return groups_; }

  // Of the whole model, and those that this rank holds, in order.
  std::size_t stage_count() const { return stages_.size() * pipeline_ranks(); }
  std::vector<std::size_t> held_stages() const;
  std::int64_t layers(std::size_t stage) const { return layer_count(graph_, placed_[stage]); }
  StageState& stage(std::size_t stage) { return stages_[stage / pipeline_ranks()]; }
  bool is_last(std::size_t stage) const { return stage + 1 == stage_count(); }

  // All parameter memory of this rank.
  std::vector<const ParameterUnit*> units() const;
  // With tied embeddings the first and the last rank of a pipeline hold the token embedding together: as a unit of its
  // own, because a stage of theirs may have reduced its gradients long before the other adds to them. Null on others.
  const ParameterUnit* shared_embedding() const { return shared_embedding_ ? &*shared_embedding_ : nullptr; }
  // Whether the unit's gradients and states count on this rank: of parameters held together the first rank's do.
  bool counts(const ParameterUnit& unit) const;

  // Starts to bring a stage's weights here; finish_gather() waits for them. free() lets them go again (ZeRO-3): a tied
  // head on another stage of this rank still has the token embedding after the embedding's stage is freed, until its
  // own stage is.
  void gather(std::size_t stage);
  void finish_gather(std::size_t stage);
  enum class FreeAfter { forward, backward };
  // Whether this rank alone can run the model.
  bool holds_all_weights() const {
    return !gathers_for_use() && groups_.mesh.tensor * groups_.mesh.context * groups_.mesh.pipeline == 1;
  }
  bool gathers_for_use() const { return sharding_.zero_stage == 3 && groups_.data.shards() > 1; }
  void free(std::size_t stage, FreeAfter pass);

 private:
  std::size_t pipeline_ranks() const { return static_cast<std::size_t>(groups_.pipeline.ranks()); }
  bool shares_embedding_here() const;
  bool shares_embedding(std::size_t stage) const;
  // Of each unit, in the order of units().
  std::vector<std::vector<std::size_t>> unit_parameters() const;
  ParameterUnit make_unit(const std::vector<std::size_t>& parameters, std::int64_t seed) const;
  void add_stage(const Recipe& recipe, ParameterUnit unit, const Stage& placed);
  ParameterStore& embedding_store(ParameterStore& own);

  Graph graph_;
  at::Device device_;
  ShardingOptions sharding_;
  RankGroups groups_;
  std::vector<Stage> placed_;  // of the whole model
  std::optional<kernels::RopeTable> rope_;
  std::optional<ParameterUnit> shared_embedding_;
  std::vector<StageState> stages_;
};

}  // namespace llmtrain
