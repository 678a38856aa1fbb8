// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

#include "core/graph/experts.h"
#include "parallel/plan/cost/block_cost.h"
#include "parallel/plan/cost/boundary.h"
#include "parallel/plan/cost/data_parallel_cost.h"
#include "parallel/plan/cost/expert_traffic.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/cost/tensor_gradient_cost.h"
#include "parallel/plan/schedule.h"
#include "parallel/plan/step_scalars.h"

namespace llmtrain {
namespace {

// Everything that the entries are counted from.
struct Traffic {
  const CostContext& context;
  const Graph& graph;
  const std::vector<Stage>& stages;
  std::vector<ParameterShare> shares;
  double micro_batches = 0;
  std::vector<double> gathers{};     // in a step, of each stage's weights
  std::vector<double> reductions{};  // and of its gradients
  double shared_embedding = 0;       // elements of the token embedding that both ends of a pipeline hold
  std::vector<CommunicationEntry> entries{};

  void add(CommunicationEntry entry) {
    if (entry.ranks > 1 && entry.bytes_per_rank_per_step > 0) entries.push_back(std::move(entry));
  }
};

// The busiest pipeline rank's sum of something over its stages.
double busiest(const Traffic& traffic, const std::function<double(std::size_t)>& of_stage) {
  const auto ranks = static_cast<std::size_t>(traffic.context.mesh.pipeline);
  std::vector<double> sums(ranks, 0);
  for (std::size_t stage = 0; stage < traffic.stages.size(); ++stage) sums[stage % ranks] += of_stage(stage);
  return *std::max_element(sums.begin(), sums.end());
}

// How often each stage has the operation in its rank's list.
std::vector<double> count_by_stage(const Schedule& schedule, Operation operation) {
  std::vector<double> counts(static_cast<std::size_t>(schedule.shape.stages()), 0);
  for (const RankSchedule& rank : schedule.ranks)
    for (const Instruction& instruction : rank.instructions)
      if (instruction.operation == operation) ++counts[static_cast<std::size_t>(instruction.stage)];
  return counts;
}

// At most how often a step moves the embedding that the ends of a pipeline share.
constexpr double once = 1, with_its_stages = std::numeric_limits<double>::infinity();

// The busiest pipeline rank's bytes of one part of the data-parallel traffic, which each stage has `counts` times. A
// shared embedding is no part of its stages then: it has padding and, at the end of a step, a reduction of its own.
double busiest_traffic(const Traffic& traffic, const std::vector<double>& counts, double shared_at_most,
                       double DataParallelTraffic::*member) {
  const auto bytes_of = [&](const ParameterShare& share) {
    return data_parallel_traffic(traffic.context.recipe, traffic.context.mesh, share).*member;
  };
  ParameterShare shared;
  shared.other = traffic.shared_embedding;
  return busiest(traffic, [&](std::size_t stage) {
    const bool shares = shared.other > 0 && (stage == 0 || stage + 1 == traffic.stages.size());
    if (!shares) return counts[stage] * bytes_of(traffic.shares[stage]);
    ParameterShare own = traffic.shares[stage];
    own.other -= shared.other;
    return counts[stage] * bytes_of(own) + std::min(shared_at_most, counts[stage]) * bytes_of(shared);
  });
}

double busiest_layers(const Traffic& traffic, LayerKind kind) {
  return busiest(traffic, [&](std::size_t stage) {
    double layers = 0;
    for (const std::size_t index : traffic.stages[stage].blocks) {
      const Block& block = traffic.graph.blocks[index];
      if (block.kind != BlockKind::layer) continue;
      const bool experts = has_experts(traffic.graph.model, block.layer);
      if (experts == (kind == LayerKind::experts)) ++layers;
    }
    return layers;
  });
}

double busiest_blocks(const Traffic& traffic, std::initializer_list<BlockKind> kinds) {
  return busiest(traffic, [&](std::size_t stage) {
    const auto& blocks = traffic.stages[stage].blocks;
    return static_cast<double>(std::count_if(blocks.begin(), blocks.end(), [&](std::size_t block) {
      return std::find(kinds.begin(), kinds.end(), traffic.graph.blocks[block].kind) != kinds.end();
    }));
  });
}

void add_gradients(Traffic& traffic) {
  const Recipe& recipe = traffic.context.recipe;
  const Mesh& mesh = traffic.context.mesh;
  const CollectiveCost& collectives = traffic.context.collectives;
  const bool sharded = recipe.parallel.zero_stage > 0;
  const RankGroup dense = sharded ? shard_group(mesh) : data_group(mesh);
  const RankGroup experts = expert_data_group(mesh), replicas = replica_group(mesh);
  const double bytes = busiest_traffic(traffic, traffic.reductions, once, &DataParallelTraffic::gradient_bytes);
  const double expert_bytes =
      busiest_traffic(traffic, traffic.reductions, once, &DataParallelTraffic::expert_gradient_bytes);
  const auto add = [&](const std::string& group, double full, const RankGroup& ranks) {
    const std::string collective = sharded ? "reduce_scatter" : "all_reduce";
    const double sent = sharded ? all_gather_bytes(full, ranks.ranks) : all_reduce_bytes(full, ranks.ranks);
    const double seconds = sharded ? collectives.reduce_scatter(full, ranks) : collectives.all_reduce(full, ranks);
    traffic.add({collective, "data_parallel", group, ranks.ranks, sent, seconds});
  };
  add("gradients", bytes, dense);
  add("expert gradients", expert_bytes, experts);
  if (!sharded) return;
  const double part = bytes / static_cast<double>(dense.ranks);
  traffic.add({"all_reduce", "data_parallel", "gradient shards", replicas.ranks, all_reduce_bytes(part, replicas.ranks),
               collectives.all_reduce(part, replicas)});
}

void add_weights(Traffic& traffic) {
  const Recipe& recipe = traffic.context.recipe;
  const Mesh& mesh = traffic.context.mesh;
  if (recipe.parallel.zero_stage == 0) return;
  const auto add = [&](const std::string& group, const RankGroup& ranks, double DataParallelTraffic::*member) {
    const double bytes = busiest_traffic(traffic, traffic.gathers, with_its_stages, member);
    const CollectiveCost& collectives = traffic.context.collectives;
    const double seconds = recipe.parallel.zero_stage == 3 ? collectives.gather_weights(bytes, ranks)
                                                           : collectives.all_gather(bytes, ranks);
    traffic.add({"all_gather", "data_parallel", group, ranks.ranks, all_gather_bytes(bytes, ranks.ranks), seconds});
  };
  add("weights", shard_group(mesh), &DataParallelTraffic::weight_bytes);
  add("expert weights", expert_data_group(mesh), &DataParallelTraffic::expert_weight_bytes);
}

// Four all-reduces a layer and micro-batch, or with sequence parallelism as many all-gathers and reduce-scatters and
// two gathers more in the backward; a repeated forward repeats its own.
void add_tensor_parallel(Traffic& traffic) {
  const CostContext& context = traffic.context;
  const RankGroup group = tensor_group(context.mesh);
  if (group.ranks <= 1) return;
  const bool full = context.recipe.memory.recompute == Recompute::full;
  const double passes = (full ? 3 : 2) * traffic.micro_batches;
  const double halves = 2 * busiest_layers(traffic, LayerKind::dense) + busiest_layers(traffic, LayerKind::experts);
  const double element = context.roofline.element_bytes();
  const double tensor = context.shape.tokens * context.shape.hidden * element;
  const CollectiveCost& collectives = context.collectives;
  if (!context.recipe.parallel.sequence) {
    const double bytes = passes * halves * tensor;
    traffic.add({"all_reduce", "tensor_parallel", "activations", group.ranks, all_reduce_bytes(bytes, group.ranks),
                 passes * halves * collectives.all_reduce(tensor, group)});
    return;
  }
  const bool fp8 = context.recipe.precision.fp8_level != Fp8Level::off;
  const double gathered = (passes + traffic.micro_batches) * halves;
  const double gather_bytes = fp8 ? tensor / element : tensor;
  traffic.add({"all_gather", "tensor_parallel", "activations", group.ranks,
               all_gather_bytes(gathered * gather_bytes, group.ranks),
               gathered * collectives.all_gather(gather_bytes, group)});
  traffic.add({"reduce_scatter", "tensor_parallel", "activations", group.ranks,
               all_gather_bytes(passes * halves * tensor, group.ranks),
               passes * halves * collectives.reduce_scatter(tensor, group)});
}

// The embedding's sum in the forward, the head's in the backward, and with split sequences the gathers of the other
// way.
void add_embedding_and_head(Traffic& traffic) {
  const CostContext& context = traffic.context;
  const RankGroup group = tensor_group(context.mesh);
  if (group.ranks <= 1) return;
  const CollectiveCost& collectives = context.collectives;
  const double ends = traffic.micro_batches * busiest_blocks(traffic, {BlockKind::embedding, BlockKind::head});
  const double tensor = context.shape.tokens * context.shape.hidden * context.roofline.element_bytes();
  const bool split = context.recipe.parallel.sequence;
  const std::string name = "embedding and head";
  if (split) {
    const double bytes = all_gather_bytes(ends * tensor, group.ranks);
    traffic.add(
        {"all_gather", "tensor_parallel", name, group.ranks, bytes, ends * collectives.all_gather(tensor, group)});
    traffic.add({"reduce_scatter", "tensor_parallel", name, group.ranks, bytes,
                 ends * collectives.reduce_scatter(tensor, group)});
  } else {
    traffic.add({"all_reduce", "tensor_parallel", name, group.ranks, all_reduce_bytes(ends * tensor, group.ranks),
                 ends * collectives.all_reduce(tensor, group)});
  }
  const double exchange = cross_entropy_exchange_bytes(context.shape, group.ranks);
  traffic.add({"all_gather", "tensor_parallel", "cross-entropy", group.ranks,
               all_gather_bytes(traffic.micro_batches * exchange, group.ranks),
               traffic.micro_batches * collectives.all_gather(exchange, group)});
}

// Once a step.
void add_tensor_gradients(Traffic& traffic) {
  const CostContext& context = traffic.context;
  const CollectiveCost& collectives = context.collectives;
  const RankGroup group = tensor_group(context.mesh), heads = same_heads_group(context.mesh, context.recipe.model);
  const double gradient = context.recipe.precision.gradients == DataType::fp32 ? 4 : 2;
  TensorGradientShare most;
  for (const auto& share : tensor_gradient_shares(context.recipe, traffic.graph, context.mesh, traffic.stages)) {
    most.whole_group = std::max(most.whole_group, gradient * share.whole_group);
    most.same_heads = std::max(most.same_heads, gradient * share.same_heads);
  }
  traffic.add({"all_reduce", "tensor_parallel", "norm gradients", group.ranks,
               all_reduce_bytes(most.whole_group, group.ranks), collectives.all_reduce(most.whole_group, group)});
  traffic.add({"all_reduce", "tensor_parallel", "key and value gradients", heads.ranks,
               all_reduce_bytes(most.same_heads, heads.ranks), collectives.all_reduce(most.same_heads, heads)});
}

void add_context_and_experts(Traffic& traffic) {
  const CostContext& context = traffic.context;
  const LayerShape& shape = context.shape;
  const RankGroup ring = context_group(context.mesh), exchange = expert_group(context.mesh);
  const double layers = busiest_blocks(traffic, {BlockKind::layer});
  const double passes = context.recipe.memory.recompute == Recompute::none ? 3 : 4;
  const double part = 2 * shape.tokens * shape.key_width * context.roofline.element_bytes();
  const double hops = passes * layers * traffic.micro_batches * static_cast<double>(ring.ranks - 1);
  traffic.add({"send_receive", "context", "keys and values", ring.ranks, hops * part,
               hops * context.collectives.point_to_point(part, ring)});
  if (!context.recipe.model.moe) return;
  const bool full = context.recipe.memory.recompute == Recompute::full;
  const double count = (full ? 6 : 4) * traffic.micro_batches * busiest_layers(traffic, LayerKind::experts);
  const double bytes = expert_traffic(context.recipe, context.mesh).exchange_bytes;
  traffic.add({"all_to_all", "expert", "tokens", exchange.ranks, count * all_gather_bytes(bytes, exchange.ranks),
               count * context.collectives.all_to_all(bytes, exchange)});
}

// Every stage but the last sends activations, every stage but the first gradients.
void add_pipeline(Traffic& traffic) {
  const CostContext& context = traffic.context;
  const Mesh& mesh = context.mesh;
  if (mesh.pipeline <= 1) return;
  const std::size_t last = traffic.stages.size() - 1;
  const double sends = traffic.micro_batches * busiest(traffic, [&](std::size_t stage) {
                         return (stage < last ? 1.0 : 0.0) + (stage > 0 ? 1.0 : 0.0);
                       });
  const RankGroup neighbours = pipeline_neighbours(mesh);
  traffic.add({"send_receive", "pipeline", "activations", 2, sends * boundary_bytes(context.recipe, mesh),
               sends * boundary_seconds(context, neighbours)});
  if (!context.recipe.parallel.sequence) {
    const double whole = boundary_tensor_bytes(context.recipe, mesh);
    const RankGroup tensor = tensor_group(mesh);
    traffic.add({"all_gather", "pipeline", "activations", tensor.ranks, sends * all_gather_bytes(whole, tensor.ranks),
                 sends * context.collectives.all_gather(whole, tensor)});
  }
  const double gradient = context.recipe.precision.gradients == DataType::fp32 ? 4 : 2;
  const double tied = gradient * traffic.shared_embedding;
  traffic.add({"all_reduce", "pipeline", "tied embedding", 2, all_reduce_bytes(tied, 2),
               context.collectives.all_reduce(tied, tied_embedding_group(mesh))});
}

}  // namespace

std::vector<CommunicationEntry> communication_of(const Recipe& recipe, const Graph& graph, const Mesh& mesh,
                                                 const std::vector<Stage>& stages, const Schedule& schedule,
                                                 const ClusterProfile& profile) {
  const CostConstants constants;
  const CostContext context(recipe, mesh, profile, constants);
  Traffic traffic{context, graph, stages, parameter_shares(graph, mesh, stages)};
  traffic.shared_embedding = tied_embedding_elements(graph, mesh, stages);
  traffic.micro_batches = schedule.shape.micro_batches;
  traffic.reductions = count_by_stage(schedule, Operation::reduce_gradients);
  traffic.gathers = count_by_stage(schedule, Operation::gather_weights);
  add_gradients(traffic);
  add_weights(traffic);
  add_tensor_parallel(traffic);
  add_embedding_and_head(traffic);
  add_tensor_gradients(traffic);
  add_context_and_experts(traffic);
  add_pipeline(traffic);
  const RankGroup world{mesh.world(), 1, std::min(mesh.world(), mesh.devices_per_node)};
  const double scalars = step_scalars * sizeof(double) * static_cast<double>(world.ranks);
  traffic.add({"all_gather", "control", "scalars", world.ranks, all_gather_bytes(scalars, world.ranks),
               context.collectives.all_gather(scalars, world)});
  return traffic.entries;
}

}  // namespace llmtrain
