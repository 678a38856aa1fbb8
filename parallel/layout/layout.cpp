// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/layout.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/graph/marks/recomputed_layers.h"
#include "core/graph/marks/token_dropping.h"
#include "core/graph/sharding.h"
#include "core/recipe/step_shapes.h"

namespace llmtrain {
namespace {

ScheduleShape schedule_shape(const Recipe& recipe, const Mesh& mesh) {
  using Kind = StateGroup::Kind;
  // Experts have copies of their own: also on tensor ranks that do not split them.
  const std::int64_t copies = recipe.model.moe ? expert_data_group(widest_mesh(mesh)).ranks : 1;
  const std::int64_t sharding =
      std::max(effective_zero_stage(recipe, mesh, Kind::dense), effective_zero_stage(recipe, mesh, Kind::experts));
  return {.kind = recipe.pipeline.schedule,
          .pipeline = static_cast<std::int32_t>(mesh.pipeline),
          .loops = static_cast<std::int32_t>(recipe.pipeline.loops),
          .micro_batches = static_cast<std::int32_t>(mesh.micro_batches(recipe.batch)),
          // At 0 the schedule omits ZeRO's instructions.
          .zero_stage = static_cast<std::int32_t>(sharding),
          .reduces = std::max(data_group(mesh).ranks, copies) > 1,
          .fetches = recipe.memory.offload.weights,
          .updates_by_stage = recipe.training.update_in_backward,
          .evicts_gradients = recipe.memory.offload.gradients,
          .resident_stages = static_cast<std::int32_t>(recipe.memory.offload.resident_stages)};
}

std::shared_ptr<const Graph> build_graph(const Recipe& recipe) {
  Graph graph = Graph::build_with_routing(recipe.model, recipe.precision.high_precision, recipe.training.freeze);
  if (const auto& dropping = recipe.training.token_dropping) drop_tokens(graph, *dropping);
  mark_recompute(graph, recipe.memory.recompute_of_layers);
  return std::make_shared<const Graph>(std::move(graph));
}

// A given graph is of the same model, but another recipe may have marked it.
bool suits(const std::shared_ptr<const Graph>& graph, const Recipe& recipe) {
  return graph != nullptr && has_recompute(*graph, recipe.memory.recompute_of_layers);
}

// For graphs that no recipe says: the rules of recipes ask for the same by the names of keys. Throws Error(bad_recipe).
void require_divided(const Graph& graph, const Mesh& mesh) {
  const ShardDegrees degrees = shard_degrees(mesh);
  const Parameter* const parameter = undivided(graph, degrees);
  if (parameter == nullptr) return;
  const auto refuse = [&](std::string_view key, std::int64_t ranks, std::int64_t units) {
    throw Error(ExitCode::bad_recipe,
                fmt::format("/parallel/{}: {} does not divide the {} units of {}; must divide them", key, ranks, units,
                            parameter->name));
  };
  if (!parameter->has_expert_axis) refuse("tensor", degrees.tensor, parameter->split.units);
  if (parameter->shape.front() % degrees.expert != 0) refuse("expert", degrees.expert, parameter->shape.front());
  refuse("expert_tensor", degrees.expert_tensor, parameter->split.units);
}

}  // namespace

Partition Partition::make(const Recipe& recipe, std::int64_t devices_per_node, std::shared_ptr<const Graph> graph) {
  const Mesh mesh = make_mesh(recipe, devices_per_node);
  if (!suits(graph, recipe)) graph = build_graph(recipe);
  require_divided(*graph, mesh);
  return on_mesh(recipe, mesh, std::move(graph));
}

Partition Partition::on_mesh(const Recipe& recipe, const Mesh& mesh, std::shared_ptr<const Graph> graph) {
  Partition partition;
  partition.recipe = recipe;
  partition.graph = suits(graph, recipe) ? std::move(graph) : build_graph(recipe);
  partition.mesh = mesh;
  partition.stages = place_blocks(*partition.graph, recipe.pipeline, mesh.pipeline);
  partition.groups = state_groups(recipe, *partition.graph, mesh, partition.stages);
  partition.lent = lent_parameters(*partition.graph, partition.stages, mesh.pipeline);
  partition.shape = schedule_shape(recipe, mesh);
  partition.shape.frozen_stages = frozen_stages(*partition.graph, partition.stages);
  partition.exchange = exchange_methods(recipe, mesh);
  // Without prices: that which gathers least first.
  if (mesh.switches_experts) partition.expert_splits = llmtrain::expert_splits(mesh);
  std::ranges::reverse(partition.expert_splits);
  return partition;
}

Partition Partition::split_by(std::int64_t ranks) const {
  Partition other = *this;
  other.mesh = llmtrain::split_by(mesh, ranks);
  for (std::vector<StateGroup>& stage : other.groups)
    for (StateGroup& group : stage)
      if (group.kind == StateGroup::Kind::experts) group.joined = other.mesh.expert_joined;
  return other;
}

std::set<std::vector<std::size_t>> Partition::sharing_ranks() const {
  std::set<std::vector<std::size_t>> sharing;
  for (const std::vector<StateGroup>& stage : groups)
    for (const StateGroup& group : stage)
      if (group.is_shared()) sharing.insert(group.holders);
  return sharing;
}

std::vector<int> Partition::copies_of(int rank, std::int64_t copies) const {
  const std::vector<int> ranks = group_members(mesh, GroupKind::tensor, rank);
  const auto position = std::ranges::find(ranks, rank) - ranks.begin();
  const auto first = ranks.begin() + position / copies * copies;
  return {first, first + copies};
}

bool have_equal_graphs(const Recipe& a, const Recipe& b) {
  const auto parts = [](const Recipe& recipe) {
    return std::tie(recipe.model, recipe.precision.high_precision, recipe.training.freeze,
                    recipe.training.token_dropping, recipe.memory.recompute_of_layers);
  };
  return parts(a) == parts(b);
}

PassSetting pass_setting(const Partition& partition) {
  const Recipe& recipe = partition.recipe;
  const Mesh& mesh = partition.mesh;
  const ExchangeMethods& exchange = partition.exchange;
  const bool tries_nodes = exchange.are_open() && recipe.parallel.expert_all_to_all == AllToAll::automatic;
  return {.program = {.attention = recipe.kernels.attention},
          .tokens = {.batch = recipe.batch.micro,
                     .sequence_length = recipe.batch.sequence_length,
                     .target_length = target_length(recipe),
                     .kept = partition.kept_tokens,
                     .context = mesh.context,
                     .row_ranks = recipe.parallel.sequence ? mesh.tensor : 1,
                     .has_documents = has_documents(recipe.data)},
          .shards = shard_degrees(mesh_in_use(mesh)),
          .numbers = {.compute = recipe.precision.compute, .fp8_level = recipe.precision.fp8_level},
          .exchange = {.node_ranks = relaying_ranks(mesh, exchange.planned.all_to_all),
                       .parts = exchange.planned.parts,
                       .is_chosen = exchange.are_open(),
                       .tries_parts = exchange.are_open() && !recipe.parallel.expert_overlap,
                       .tried_node_ranks = tries_nodes ? expert_node_ranks(mesh) : 1},
          .recompute = recipe.memory.recompute,
          .chunks = recipe.memory.chunks};
}

Layout::Layout(Partition partition) : partition_(std::move(partition)), schedule_(make_schedule(partition_.shape)) {
  // Transfers are buffered per micro-batch, so as many buffers as micro-batches is what the runner provides.
  check(schedule_, partition_.shape.micro_batches);
}

Layout Layout::of_batch(std::int64_t global) const {
  Partition partition = partition_;
  BatchRecipe& batch = partition.recipe.batch;
  batch.global = global;
  batch.growth = std::nullopt;
  partition.shape.micro_batches = static_cast<std::int32_t>(partition.mesh.micro_batches(batch));
  return Layout(std::move(partition));
}

}  // namespace llmtrain
