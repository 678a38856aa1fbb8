// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/stages.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/error.h"
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

std::int32_t frozen_stages(const Graph& graph, std::span<const Stage> stages) {
  const auto is_trained = [&](const Stage& stage) {
    return std::ranges::any_of(stage.blocks, [&](std::size_t block) { return graph.blocks[block].has_backward; });
  };
  return static_cast<std::int32_t>(std::ranges::find_if(stages, is_trained) - stages.begin());
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
        const Block& reader = graph.blocks[block];
        return std::ranges::binary_search(readers, block) && reader.reads_in_backward() && reader.has_backward;
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

}  // namespace llmtrain
