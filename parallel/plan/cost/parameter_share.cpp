// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/parameter_share.h"

#include <array>
#include <cstddef>
#include <optional>

#include "core/graph/experts.h"
#include "core/graph/sharding.h"

namespace llmtrain {
namespace {

bool is_linear_role(ParameterRole role) {
  return role != ParameterRole::token_embedding && role != ParameterRole::position_embedding &&
         role != ParameterRole::head_weight && role != ParameterRole::router_weight &&
         role != ParameterRole::router_projection_weight;
}

double elements_on_rank(const Graph& graph, const Parameter& parameter, const Mesh& mesh) {
  const ShardDegrees degrees{mesh.tensor, mesh.expert, mesh.expert_tensor};
  return static_cast<double>(local_elements(graph.model, parameter, degrees));
}

ParameterShare share_of(const Graph& graph, const Block& block, const Mesh& mesh) {
  ParameterShare share;
  for (const std::size_t index : block.parameters) {
    const Parameter& parameter = graph.parameters[index];
    const double elements = elements_on_rank(graph, parameter, mesh);
    share.tensors += 1;
    if (parameter.has_expert_axis) {
      share.experts += elements;
    } else if (parameter.shape.size() == 2 && is_linear_role(parameter.role)) {
      share.linear += elements;
    } else {
      share.other += elements;
    }
  }
  return share;
}

// Prices each kind of block once: layers of a kind are alike.
class BlockShares {
 public:
  BlockShares(const Graph& graph, const Mesh& mesh) : graph_(graph), mesh_(mesh) {}

  const ParameterShare& of(const Block& block) {
    const bool experts = block.kind == BlockKind::layer && has_experts(graph_.model, block.layer);
    auto& share = experts ? experts_ : plain_[static_cast<std::size_t>(block.kind)];
    if (!share) share = share_of(graph_, block, mesh_);
    return *share;
  }

 private:
  const Graph& graph_;
  const Mesh& mesh_;
  std::array<std::optional<ParameterShare>, 3> plain_;  // by kind of block
  std::optional<ParameterShare> experts_;
};

std::size_t stage_of(const Graph& graph, const std::vector<Stage>& stages, BlockKind kind) {
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (const std::size_t block : stages[stage].blocks) {
      if (graph.blocks[block].kind == kind) return stage;
    }
  }
  return 0;
}

}  // namespace

ParameterShare& ParameterShare::operator+=(const ParameterShare& share) {
  linear += share.linear;
  other += share.other;
  experts += share.experts;
  tensors += share.tensors;
  return *this;
}

double tied_embedding_elements(const Graph& graph, const Mesh& mesh, const std::vector<Stage>& stages) {
  if (!graph.model.tie_embeddings || mesh.pipeline <= 1) return 0;
  const auto ranks = static_cast<std::size_t>(mesh.pipeline);
  const std::size_t head = stage_of(graph, stages, BlockKind::head);
  const std::size_t embedding = stage_of(graph, stages, BlockKind::embedding);
  return head % ranks == embedding % ranks ? 0 : elements_on_rank(graph, graph.logits_weight(), mesh);
}

std::vector<ParameterShare> parameter_shares(const Graph& graph, const Mesh& mesh, const std::vector<Stage>& stages) {
  BlockShares blocks(graph, mesh);
  std::vector<ParameterShare> shares(stages.size());
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (const std::size_t block : stages[stage].blocks) shares[stage] += blocks.of(graph.blocks[block]);
  }
  shares[stage_of(graph, stages, BlockKind::head)].other += tied_embedding_elements(graph, mesh, stages);
  return shares;
}

}  // namespace llmtrain
