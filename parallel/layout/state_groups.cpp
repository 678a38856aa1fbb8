// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/state_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/graph/sharding.h"

namespace llmtrain {
namespace {

using Kind = StateGroup::Kind;

// What distinguishes the groups of a stage.
struct GroupKey {
  Kind kind{};
  std::vector<std::size_t> readers;  // as in the group
  bool is_fp8 = false;
  bool is_frozen = false;
  bool is_muon = false;
  bool is_packed = false;

  bool operator==(const GroupKey&) const = default;
  bool is_of(const StateGroup& group) const {
    return group.kind == kind && group.readers == readers && group.is_fp8 == is_fp8 && group.is_frozen == is_frozen &&
           group.is_muon == is_muon && group.is_packed == is_packed;
  }
};

// The ranks of a pipeline that hold the stages, ascending.
std::vector<std::size_t> ranks_of(std::span<const std::size_t> stages, std::int64_t pipeline_ranks) {
  std::set<std::size_t> ranks;
  for (const std::size_t stage : stages) ranks.insert(stage % static_cast<std::size_t>(pipeline_ranks));
  return {ranks.begin(), ranks.end()};
}

StateTypes types_of(const GroupKey& key, const Recipe& recipe) {
  const PrecisionRecipe& precision = recipe.precision;
  if (key.is_frozen) {
    StateTypes types = frozen_state_types(precision);
    if (key.is_packed) types.packed_bytes = recipe.model.lora->nf4_bytes();
    return types;
  }
  if (key.is_muon) return muon_state_types(precision);
  return key.is_fp8 ? fp8_state_types(precision) : state_types(precision);
}

std::int64_t zero_stage_of(const GroupKey& key, const Recipe& recipe, const Mesh& mesh) {
  const std::int64_t stage = effective_zero_stage(recipe, mesh, key.kind);
  // Up to stage 2 whole weights are resident: those that are never updated need no owner.
  return key.is_frozen && stage < 3 ? 0 : stage;
}

// The group of these parameters, which is appended where there is none yet, with room for `most`.
StateGroup& group_of(std::vector<StateGroup>& groups, const GroupKey& key, const Recipe& recipe, const Mesh& mesh,
                     std::size_t most) {
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
  group.is_packed = key.is_packed;
  group.types = types_of(key, recipe);
  group.parameters.reserve(most);
  group.sizes.reserve(most);
  group.shards = key.kind == Kind::experts ? expert_shard_group(mesh) : shard_group(mesh);
  group.joined = key.kind == Kind::experts ? mesh.expert_joined : 1;
  group.zero_stage = zero_stage_of(key, recipe, mesh);
  return group;
}

GroupKey key_of(const Parameter& parameter, const Recipe& recipe, const std::vector<std::size_t>& readers) {
  // FP8 levels concern the layers' matrices only: small or sensitive tensors keep their precision (FP8-LM).
  const bool is_fp8 = stores_fp8(recipe.precision.fp8_level) && parameter.takes_fp8() && !parameter.is_frozen;
  const bool is_muon =
      recipe.training.optimizer.name == OptimizerKind::muon && parameter.is_layer_matrix && !parameter.is_frozen;
  const Kind kind = parameter.has_expert_axis ? Kind::experts : Kind::dense;
  return {kind, readers, is_fp8, parameter.is_frozen, is_muon, parameter.is_packed};
}

// Parameters of a block that follow each other and are of one group.
struct Run {
  GroupKey key;
  std::size_t first = 0;            // of the block's parameters
  std::vector<std::int64_t> sizes;  // as in the group
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

// The groups of one stage after another. What blocks that are alike add to them is found once for all stages, as far as
// no parameter is shared: a search asks for the groups of thousands of layouts.
class GroupWriter {
 public:
  GroupWriter(const Recipe& recipe, const Graph& graph, const Mesh& mesh, std::span<const Stage> stages)
      : recipe_(recipe), graph_(graph), mesh_(mesh), stages_(stages), degrees_(shard_degrees(mesh)), runs_(graph) {}

  std::vector<StateGroup> of(std::size_t stage) {
    groups_.clear();
    most_ = 0;
    for (const std::size_t block : stages_[stage].blocks)
      most_ += graph_.blocks[block].parameters.size() + graph_.blocks[block].shared.size();
    const std::map<std::size_t, std::vector<std::size_t>> shared = shared_parameters(graph_, mesh_, stages_, stage);
    for (const auto& [index, readers] : shared) add(index, readers);
    const auto is_shared = [&](std::size_t index) { return shared.contains(index); };
    for (const std::size_t block : stages_[stage].blocks) {
      const std::vector<std::size_t>& parameters = graph_.blocks[block].parameters;
      if (shared.empty() || std::ranges::none_of(parameters, is_shared)) {
        add_all(block);
      } else {
        for (const std::size_t index : parameters)
          if (!is_shared(index)) add(index, {});
      }
    }
    return std::move(groups_);
  }

 private:
  void add(std::size_t index, const std::vector<std::size_t>& readers) {
    const Parameter& parameter = graph_.parameters[index];
    StateGroup& group = group_of(groups_, key_of(parameter, recipe_, readers), recipe_, mesh_, most_);
    group.parameters.push_back(index);
    group.sizes.push_back(local_elements(parameter, degrees_));
  }

  void add_all(std::size_t block) {
    const std::vector<std::size_t>& parameters = graph_.blocks[block].parameters;
    for (const Run& run : runs_.of(block, [&] { return runs_of(parameters); })) {
      StateGroup& group = group_of(groups_, run.key, recipe_, mesh_, most_);
      const auto first = parameters.begin() + static_cast<std::ptrdiff_t>(run.first);
      group.parameters.insert(group.parameters.end(), first, first + std::ssize(run.sizes));
      group.sizes.insert(group.sizes.end(), run.sizes.begin(), run.sizes.end());
    }
  }

  std::vector<Run> runs_of(const std::vector<std::size_t>& parameters) const {
    std::vector<Run> runs;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& parameter = graph_.parameters[parameters[i]];
      GroupKey key = key_of(parameter, recipe_, {});
      if (runs.empty() || runs.back().key != key) runs.push_back({std::move(key), i, {}});
      runs.back().sizes.push_back(local_elements(parameter, degrees_));
    }
    return runs;
  }

  const Recipe& recipe_;
  const Graph& graph_;
  const Mesh& mesh_;
  std::span<const Stage> stages_;
  ShardDegrees degrees_;
  BlockCache<std::vector<Run>> runs_;
  std::vector<StateGroup> groups_;  // of the stage
  std::size_t most_ = 0;            // parameters of one of them
};

}  // namespace

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

StateTypes narrow_states(StateTypes types) {
  if (types.weight == ElementType::float32) return types;
  types.master = std::nullopt;
  types.first_moment = ElementType::bfloat16;
  if (types.second_moment) types.second_moment = ElementType::bfloat16;
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
  // Shards on the host are brought in for use, also where no other rank has one.
  if (recipe.memory.offload.weights) return recipe.parallel.zero_stage;
  return gathering_group(widest_mesh(mesh), kind).ranks > 1 ? recipe.parallel.zero_stage : 0;
}

std::vector<std::vector<StateGroup>> state_groups(const Recipe& recipe, const Graph& graph, const Mesh& mesh,
                                                  std::span<const Stage> stages) {
  GroupWriter writer(recipe, graph, mesh, stages);
  std::vector<std::vector<StateGroup>> groups;
  groups.reserve(stages.size());
  const std::int64_t leaving = recipe.pipeline.loops - recipe.memory.offload.resident_stages;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    groups.push_back(writer.of(stage));
    const bool is_resident = static_cast<std::int64_t>(stage) / mesh.pipeline >= leaving;
    for (StateGroup& group : groups.back()) group.stays = is_resident && !group.is_shared();
  }
  return groups;
}

}  // namespace llmtrain
