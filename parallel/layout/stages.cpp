// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/stages.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/graph/sharding.h"
#include "core/graph/values.h"

namespace llmtrain {
namespace {

// Whether the one of so many holds neither embedding nor head (0), the embedding (1) or the head (2).
int end_of(std::int64_t index, std::int64_t count) {
  if (index + 1 == count) return 2;
  return index == 0 ? 1 : 0;
}

// The stages in the order in which they get a layer more than others. Ranks take turns, so that their layers differ by
// at most one; embedding and head are work too, so their ranks come last in every turn, and their stages last of a
// rank.
std::vector<std::size_t> stages_by_turn(std::int64_t ranks, std::int64_t loops) {
  const auto stages = static_cast<std::size_t>(ranks * loops);
  std::vector<std::size_t> order(stages);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto end_of_stage = [&](std::size_t stage) { return end_of(static_cast<std::int64_t>(stage), ranks * loops); };
  std::ranges::stable_sort(order, {}, end_of_stage);
  std::vector<std::pair<std::int64_t, int>> turn_of(stages);  // and the rank's end
  std::vector<std::int64_t> turns(static_cast<std::size_t>(ranks));
  for (const std::size_t stage : order) {
    const std::size_t rank = stage % turns.size();
    turn_of[stage] = {turns[rank]++, end_of(static_cast<std::int64_t>(rank), ranks)};
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t stage) { return turn_of[stage]; });
  return order;
}

// Units of each of the pipeline × loops stages; of none if there are too few.
std::vector<std::int64_t> units_per_stage(std::int64_t units, const PipelineRecipe& pipeline,
                                          std::int64_t pipeline_ranks) {
  if (pipeline.balance.kind == BalanceKind::list) return pipeline.balance.layers_per_stage;
  const std::int64_t stages = pipeline_ranks * pipeline.loops;
  if (units < stages) return {};
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), units / stages);
  if (const auto more = static_cast<std::size_t>(units % stages); more > 0) {
    const std::vector<std::size_t> order = stages_by_turn(pipeline_ranks, pipeline.loops);
    for (std::size_t i = 0; i < more; ++i) ++split[order[i]];
  }
  return split;
}

using Kind = StateGroup::Kind;

// What distinguishes the groups of a stage.
struct GroupKey {
  Kind kind{};
  std::vector<std::size_t> readers;  // as in the group
  bool is_fp8 = false;
  bool is_frozen = false;
  bool is_muon = false;

  bool is_of(const StateGroup& group) const {
    return group.kind == kind && group.readers == readers && group.is_fp8 == is_fp8 && group.is_frozen == is_frozen &&
           group.is_muon == is_muon;
  }
};

// The ranks of a pipeline that hold the stages, ascending.
std::vector<std::size_t> ranks_of(std::span<const std::size_t> stages, std::int64_t pipeline_ranks) {
  std::set<std::size_t> ranks;
  for (const std::size_t stage : stages) ranks.insert(stage % static_cast<std::size_t>(pipeline_ranks));
  return {ranks.begin(), ranks.end()};
}

StateTypes types_of(const GroupKey& key, const PrecisionRecipe& precision) {
  if (key.is_frozen) return frozen_state_types(precision);
  if (key.is_muon) return muon_state_types(precision);
  return key.is_fp8 ? fp8_state_types(precision) : state_types(precision);
}

std::int64_t zero_stage_of(const GroupKey& key, const Recipe& recipe, const Mesh& mesh) {
  const std::int64_t stage = effective_zero_stage(recipe, mesh, key.kind);
  // Up to stage 2 whole weights are resident: those that are never updated need no owner.
  return key.is_frozen && stage < 3 ? 0 : stage;
}

// The group of these parameters, which is appended where there is none yet.
StateGroup& group_of(std::vector<StateGroup>& groups, const GroupKey& key, const Recipe& recipe, const Mesh& mesh) {
  // Few groups exist per stage, so a linear search will do.
  for (StateGroup& group : groups)
    if (key.is_of(group)) return group;
  StateGroup& group = groups.emplace_back();
  group.kind = key.kind;
  group.readers = key.readers;
  group.holders = ranks_of(key.readers, mesh.pipeline);
  group.is_fp8 = key.is_fp8;
  group.is_frozen = key.is_frozen;
  group.is_muon = key.is_muon;
  group.types = types_of(key, recipe.precision);
  group.shards = key.kind == Kind::experts ? expert_shard_group(mesh) : shard_group(mesh);
  group.joined = key.kind == Kind::experts ? mesh.expert_joined : 1;
  group.zero_stage = zero_stage_of(key, recipe, mesh);
  return group;
}

// Where a parameter is held: the index of its group, and its elements on a rank.
struct Place {
  std::size_t group = 0;
  std::int64_t elements = 0;
};

// What the stage holds of what several ranks of the pipeline read, and the stages that read it. In the order of the
// graph, which is that of all the copies' memory.
std::map<std::size_t, std::vector<std::size_t>> shared_parameters(const Graph& graph, const Mesh& mesh,
                                                                  std::span<const Stage> stages, std::size_t stage) {
  std::map<std::size_t, std::vector<std::size_t>> shared;
  const auto pipeline = static_cast<std::size_t>(mesh.pipeline);
  const auto add = [&](std::size_t index) {
    if (graph.parameters[index].readers.size() < 2) return;
    std::vector<std::size_t> readers = reading_stages(graph.parameters[index], stages);
    if (ranks_of(readers, mesh.pipeline).size() == 1) return;
    // The first of the rank's stages holds it for all of them.
    const auto first = std::ranges::find(readers, stage % pipeline, [&](std::size_t each) { return each % pipeline; });
    if (*first == stage) shared.emplace(index, std::move(readers));
  };
  for (const std::size_t block : stages[stage].blocks) {
    if (graph.blocks[block].lends) std::ranges::for_each(graph.blocks[block].parameters, add);
    std::ranges::for_each(graph.blocks[block].shared, add, &Block::Shared::parameter);
  }
  return shared;
}

void add_incoming(const Graph& graph, std::vector<Stage>& stages) {
  std::vector<std::size_t> cuts(stages.size());
  std::size_t next = graph.blocks.size();
  for (std::size_t stage = stages.size(); stage-- > 0;) {
    if (!stages[stage].blocks.empty()) next = stages[stage].blocks.front();
    cuts[stage] = next;
  }
  std::vector<std::vector<std::size_t>> across = values_across(graph, cuts);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) stages[stage].incoming = std::move(across[stage]);
}

}  // namespace

std::vector<Stage> place_blocks(const Graph& graph, const PipelineRecipe& pipeline, std::int64_t pipeline_ranks) {
  const auto is_unit = [&](const Block& block) {
    return block.is_unit || pipeline.balance.kind == BalanceKind::blocks;
  };
  const std::int64_t units = std::ranges::count_if(graph.blocks, is_unit);
  const std::vector<std::int64_t> units_of = units_per_stage(units, pipeline, pipeline_ranks);
  const auto placed = std::accumulate(units_of.begin(), units_of.end(), std::int64_t{0});
  if (placed != units || static_cast<std::int64_t>(units_of.size()) != pipeline_ranks * pipeline.loops)
    throw Error(ExitCode::internal_error, "the stages violate the rules of recipes");
  // The stage of each unit, and of what follows the last one.
  std::vector<std::size_t> stage_of;
  for (std::size_t stage = 0; stage < units_of.size(); ++stage)
    stage_of.insert(stage_of.end(), static_cast<std::size_t>(units_of[stage]), stage);
  stage_of.push_back(units_of.size() - 1);
  std::vector<Stage> stages(units_of.size());
  std::size_t unit = 0;  // the next one
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const bool is_counted = is_unit(graph.blocks[block]);
    // What comes before the first unit is on the first stage, anything else with the unit that follows it.
    stages[is_counted || unit > 0 ? stage_of[unit] : 0].blocks.push_back(block);
    if (is_counted) ++unit;
  }
  add_incoming(graph, stages);
  return stages;
}

std::int64_t layer_count(const Graph& graph, const Stage& stage) {
  return std::ranges::count_if(stage.blocks, [&](std::size_t block) { return graph.blocks[block].is_unit; });
}

std::vector<std::size_t> reading_stages(const Parameter& parameter, std::span<const Stage> stages) {
  std::vector<std::size_t> reading;
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    if (std::ranges::find_first_of(stages[stage].blocks, parameter.readers) != stages[stage].blocks.end())
      reading.push_back(stage);
  return reading;
}

std::vector<LentParameter> lent_parameters(const Graph& graph, std::span<const Stage> stages,
                                           std::int64_t pipeline_ranks) {
  std::vector<LentParameter> lent;
  const auto add = [&](std::size_t index) {
    const std::vector<std::size_t>& readers = graph.parameters[index].readers;
    if (readers.size() == 1) return;
    std::map<std::size_t, std::vector<std::size_t>> by_rank;
    for (const std::size_t stage : reading_stages(graph.parameters[index], stages))
      by_rank[stage % static_cast<std::size_t>(pipeline_ranks)].push_back(stage);
    for (auto& [rank, reading] : by_rank) {
      if (reading.size() == 1) continue;
      const auto reads_again = [&](std::size_t block) {
        return std::ranges::binary_search(readers, block) && graph.blocks[block].reads_in_backward();
      };
      const bool is_read_in_backward = std::any_of(reading.begin() + 1, reading.end(), [&](std::size_t stage) {
        return std::ranges::any_of(stages[stage].blocks, reads_again);
      });
      lent.push_back({index, std::move(reading), is_read_in_backward});
    }
  };
  for (const Block& block : graph.blocks)
    if (block.lends) std::ranges::for_each(block.parameters, add);
  return lent;
}

StateTypes state_types(const PrecisionRecipe& precision) {
  StateTypes types;
  types.weight = element_type(precision.compute);
  types.gradient = element_type(precision.gradients);
  if (precision.compute != DataType::fp32) types.master = ElementType::float32;
  return types;
}

StateTypes fp8_state_types(const PrecisionRecipe& precision) {
  const Fp8Level level = precision.fp8_level;
  StateTypes types{.weight = ElementType::float16, .gradient = ElementType::float8_e4m3};
  types.accumulator = element_type(precision.gradients);
  if (level == Fp8Level::o2 || level == Fp8Level::o3) {
    types.first_moment = ElementType::float8_e4m3;
    types.second_moment = ElementType::float16;
  }
  if (level == Fp8Level::o3) {
    types.weight = ElementType::float8_e4m3;
    types.master = ElementType::float16;
  }
  return types;
}

StateTypes muon_state_types(const PrecisionRecipe& precision) {
  StateTypes types = state_types(precision);
  types.second_moment = std::nullopt;
  return types;
}

StateTypes frozen_state_types(const PrecisionRecipe& precision) {
  StateTypes types;
  types.weight = element_type(precision.compute);
  types.is_trained = false;
  return types;
}

std::int64_t StateGroup::elements() const { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}); }

RankGroup gathering_group(const Mesh& mesh, StateGroup::Kind kind) {
  // Slices are gathered from other ranks, also where each of these has whole ones.
  return kind == Kind::experts ? expert_shard_group(mesh_in_use(mesh)) : shard_group(mesh);
}

std::int64_t effective_zero_stage(const Recipe& recipe, const Mesh& mesh, StateGroup::Kind kind) {
  // Without experts nothing says that parallel.expert_tensor divides anything.
  if (kind == Kind::experts && !recipe.model.moe) return 0;
  return gathering_group(widest_mesh(mesh), kind).ranks > 1 ? recipe.parallel.zero_stage : 0;
}

std::vector<StateGroup> state_groups(const Recipe& recipe, const Graph& graph, const Mesh& mesh,
                                     std::span<const Stage> stages, std::size_t stage) {
  std::vector<StateGroup> groups;
  const ShardDegrees degrees = shard_degrees(mesh);
  std::size_t most = 0;  // parameters of a group
  for (const std::size_t block : stages[stage].blocks)
    most += graph.blocks[block].parameters.size() + graph.blocks[block].shared.size();
  const auto place = [&](std::size_t index, const std::vector<std::size_t>& readers) {
    const Parameter& parameter = graph.parameters[index];
    const Kind kind = parameter.has_expert_axis ? Kind::experts : Kind::dense;
    // FP8 levels concern the layers' matrices only: small or sensitive tensors keep their precision (FP8-LM).
    const bool is_fp8 = stores_fp8(recipe.precision.fp8_level) && parameter.takes_fp8() && !parameter.is_frozen;
    const bool is_muon =
        recipe.training.optimizer.name == OptimizerKind::muon && parameter.is_layer_matrix && !parameter.is_frozen;
    const StateGroup& group = group_of(groups, {kind, readers, is_fp8, parameter.is_frozen, is_muon}, recipe, mesh);
    return Place{static_cast<std::size_t>(&group - groups.data()), local_elements(parameter, degrees)};
  };
  const auto add = [&](std::size_t index, const Place& at) {
    StateGroup& group = groups[at.group];
    if (group.parameters.empty()) group.parameters.reserve(most), group.sizes.reserve(most);
    group.parameters.push_back(index);
    group.sizes.push_back(at.elements);
  };
  const std::map<std::size_t, std::vector<std::size_t>> shared = shared_parameters(graph, mesh, stages, stage);
  for (const auto& [index, readers] : shared) add(index, place(index, readers));
  // Blocks that are alike have the same places, as far as none is shared: a search asks for those of thousands of
  // layouts.
  std::map<std::size_t, std::vector<Place>> places;
  const auto is_shared = [&](std::size_t index) { return shared.contains(index); };
  for (const std::size_t block : stages[stage].blocks) {
    const std::vector<std::size_t>& parameters = graph.blocks[block].parameters;
    if (std::ranges::any_of(parameters, is_shared)) {
      for (const std::size_t index : parameters)
        if (!is_shared(index)) add(index, place(index, {}));
      continue;
    }
    const auto [alike, is_first] = places.try_emplace(graph.blocks[block].alike);
    if (is_first)
      for (const std::size_t index : parameters) alike->second.push_back(place(index, {}));
    for (std::size_t i = 0; i < parameters.size(); ++i) add(parameters[i], alike->second[i]);
  }
  return groups;
}

}  // namespace llmtrain
