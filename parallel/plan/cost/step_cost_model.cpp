// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/cost/tensor_gradient_cost.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "core/graph/experts.h"
#include "parallel/plan/cost/block_cost.h"
#include "parallel/plan/cost/boundary.h"
#include "parallel/plan/cost/data_parallel_cost.h"
#include "parallel/plan/cost/optimizer_cost.h"
#include "parallel/plan/imitated_machine.h"

namespace llmtrain {
namespace {

PassCost& operator+=(PassCost& sum, const PassCost& cost) {
  sum.seconds += cost.seconds;
  sum.communication_seconds += cost.communication_seconds;
  sum.recompute_seconds += cost.recompute_seconds;
  return sum;
}

// Prices each kind of block once.
class BlockCosts {
 public:
  BlockCosts(const Graph& graph, const CostContext& context) : graph_(graph), context_(context) {}

  const StageCost& of(const Block& block) {
    switch (block.kind) {
      case BlockKind::embedding:
        return kept(embedding_, [&] { return embedding_cost(context_); });
      case BlockKind::head:
        return kept(head_, [&] { return head_cost(context_); });
      case BlockKind::layer:
        break;
    }
    if (has_experts(graph_.model, block.layer)) {
      return kept(experts_, [&] { return layer_cost(context_, LayerKind::experts); });
    }
    return kept(dense_, [&] { return layer_cost(context_, LayerKind::dense); });
  }

 private:
  template <class Price>
  static const StageCost& kept(std::optional<StageCost>& cost, Price price) {
    if (!cost) cost = price();
    return *cost;
  }

  const Graph& graph_;
  const CostContext& context_;
  std::optional<StageCost> embedding_, dense_, experts_, head_;
};

// On an imitated device a pass takes at least its layers' time.
void add_imitated_layers(const Recipe& recipe, std::int64_t layers, StageCost& cost) {
  const ImitatedLayer layer = imitated_layer(recipe);
  cost.forward.seconds = std::max(cost.forward.seconds, static_cast<double>(layers) * layer.forward_seconds);
  cost.backward.seconds = std::max(cost.backward.seconds, static_cast<double>(layers) * layer.backward_seconds);
}

// Offloaded weights come over PCIe before each pass, offloaded activations (the layers' inputs) go and come beside it.
void add_offload(const CostContext& context, const ClusterProfile& profile, const ParameterShare& share,
                 const Stage& stage, StageCost& cost) {
  const OffloadRecipe& offload = context.recipe.memory.offload;
  const double element = context.roofline.element_bytes();
  double bytes = 0;
  if (offload.weights) bytes += share.elements() * element;
  if (offload.activations) {
    bytes += context.shape.row_tokens * context.shape.hidden * element * static_cast<double>(stage.blocks.size());
  }
  const double seconds = bytes / profile.device.pcie_bandwidth;
  cost.forward.seconds = std::max(cost.forward.seconds, seconds);
  cost.backward.seconds = std::max(cost.backward.seconds, seconds);
}

// Data-parallel traffic goes bucket by bucket beside the stage's own passes where the recipe overlaps it: reductions
// beside the last backward, the gather of updated weights (ZeRO-1 and -2) beside the next step's first forward.
void add_data_parallel(const CostContext& context, const ClusterProfile& profile, const ParameterShare& share,
                       const Stage& stage, StageCost& cost) {
  const DataParallelTraffic traffic = data_parallel_traffic(context.recipe, context.mesh, share);
  cost.reduce_seconds = reduction_seconds(context.recipe, context.mesh, context.collectives, traffic);
  cost.gather_seconds = gather_seconds(context.recipe, context.mesh, context.collectives, traffic);
  if (!context.recipe.parallel.overlap) return;
  const auto buckets = static_cast<double>(stage.blocks.size());
  cost.reduce_seconds =
      exposed_beside_pass(cost.reduce_seconds, cost.backward.seconds, buckets, profile.compute_slowdown);
  if (context.recipe.parallel.zero_stage == 3) return;
  cost.gather_seconds =
      exposed_beside_pass(cost.gather_seconds, cost.forward.seconds, buckets, profile.compute_slowdown);
}

std::vector<double> optimizer_by_rank(const CostContext& context, const ClusterProfile& profile, const Graph& graph,
                                      const std::vector<Stage>& stages, const std::vector<ParameterShare>& shares) {
  const auto ranks = static_cast<std::size_t>(context.mesh.pipeline);
  std::vector<ParameterShare> by_rank(ranks);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) by_rank[stage % ranks] += shares[stage];
  const double gradient = context.recipe.precision.gradients == DataType::fp32 ? 4 : 2;
  const auto tensor_gradients = tensor_gradient_shares(context.recipe, graph, context.mesh, stages);
  std::vector<double> seconds;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    seconds.push_back(
        optimizer_seconds(context, profile, by_rank[rank]) +
        tensor_gradient_seconds(tensor_gradients[rank], context.recipe, context.mesh, context.collectives));
  }
  const double tied = tied_embedding_elements(graph, context.mesh, stages);
  if (tied > 0) {
    const double exchange = context.collectives.all_reduce(tied * gradient, tied_embedding_group(context.mesh));
    seconds.front() += exchange;
    seconds.back() += exchange;
  }
  return seconds;
}

}  // namespace

StepCosts make_step_costs(const Recipe& recipe, const Graph& graph, const Mesh& mesh, const std::vector<Stage>& stages,
                          const ClusterProfile& profile, const CostConstants& constants) {
  const CostContext context(recipe, mesh, profile, constants);
  const std::vector<ParameterShare> shares = parameter_shares(graph, mesh, stages);
  BlockCosts blocks(graph, context);
  StepCosts costs;
  for (std::size_t index = 0; index < stages.size(); ++index) {
    StageCost cost;
    for (const std::size_t block : stages[index].blocks) {
      const StageCost& of_block = blocks.of(graph.blocks[block]);
      cost.forward += of_block.forward;
      cost.backward += of_block.backward;
    }
    add_imitated_layers(recipe, layer_count(graph, stages[index]), cost);
    add_offload(context, profile, shares[index], stages[index], cost);
    add_data_parallel(context, profile, shares[index], stages[index], cost);
    costs.stages.push_back(cost);
  }
  for (std::int64_t rank = 0; rank < mesh.pipeline; ++rank) {
    costs.transfer_seconds.push_back(mesh.pipeline > 1 ? boundary_seconds(context, pipeline_neighbours(mesh, rank))
                                                       : 0);
  }
  costs.optimizer_seconds = optimizer_by_rank(context, profile, graph, stages, shares);
  costs.step_overhead_seconds = profile.host.step_seconds;
  costs.compute_slowdown = profile.compute_slowdown;
  costs.overlap = recipe.parallel.overlap;
  costs.blocking_transfers = !recipe.parallel.overlap;
  return costs;
}

}  // namespace llmtrain
