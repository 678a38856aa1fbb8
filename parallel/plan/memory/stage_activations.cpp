// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/memory/stage_activations.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/graph/experts.h"

namespace llmtrain {

PassSetting pass_setting(const Recipe& recipe, const Mesh& mesh, KernelSet kernels) {
  PassSetting setting;
  setting.kernels = kernels;
  setting.batch = recipe.batch.micro;
  setting.sequence_length = recipe.batch.sequence_length;
  setting.shards = {mesh.tensor, mesh.expert, mesh.expert_tensor};
  setting.splits_sequence = recipe.parallel.sequence && mesh.tensor > 1;
  setting.context = mesh.context;
  setting.compute = recipe.precision.compute;
  setting.fp8_level = recipe.precision.fp8_level;
  setting.attention = attention_method(recipe.model, recipe.kernels.attention);
  setting.recompute = recipe.memory.recompute;
  return setting;
}

BlockActivations::BlockActivations(const Graph& graph, const PassSetting& setting)
    : boundary_(boundary_bytes(graph.model, setting)) {
  std::map<std::pair<BlockKind, bool>, std::size_t> known;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const Block& described = graph.blocks[block];
    const bool is_mixture = described.kind == BlockKind::layer && has_experts(graph.model, described.layer);
    const auto [kind, is_new] = known.try_emplace({described.kind, is_mixture}, entries_.size());
    if (is_new) entries_.push_back({saved_bytes(graph, block, setting), pass_peak(graph, block, setting)});
    kinds_.push_back(kind->second);
  }
}

StageActivations stage_activations(const BlockActivations& blocks, const Stage& stage, const StageEnds& ends) {
  const auto boundary_if = [&](bool condition) { return condition ? blocks.boundary() : 0.0; };
  const double input_elsewhere = boundary_if(ends.before == Neighbour::same_rank);
  const double counted_elsewhere = input_elsewhere + boundary_if(ends.before == Neighbour::other_rank) +
                                   boundary_if(ends.behind == Neighbour::other_rank);
  StageActivations result;
  double before = 0, forward_peak = 0, backward_peak = 0;
  for (const std::size_t block : stage.blocks) {
    const auto& [saved, peak] = blocks.of(block);
    forward_peak = std::max(forward_peak, before + peak.forward);
    backward_peak = std::max(backward_peak, before + peak.backward);
    result.largest_block = std::max(result.largest_block, saved);
    before += saved;
  }
  result.saved = before - input_elsewhere + boundary_if(ends.behind == Neighbour::same_rank);
  result.forward_workspace = std::max(0.0, forward_peak - counted_elsewhere - result.saved);
  result.backward_workspace = std::max(0.0, backward_peak - counted_elsewhere - result.saved);
  result.boundary = blocks.boundary();
  return result;
}

}  // namespace llmtrain
