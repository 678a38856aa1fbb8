// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"
#include "parallel/plan/cost/collective_cost.h"
#include "parallel/plan/mesh.h"
#include "parallel/plan/placement.h"

namespace llmtrain {

// Elements of gradients that a rank sums with other tensor ranks once a step (core/graph/sharding.h), after the
// data-parallel reduction: of the ZeRO shard that holds most of them.
struct TensorGradientShare {
  double whole_group = 0;
  double same_heads = 0;  // with the ranks that hold the same heads of keys and values
};

// By pipeline rank.
std::vector<TensorGradientShare> tensor_gradient_shares(const Recipe& recipe, const Graph& graph, const Mesh& mesh,
                                                        const std::vector<Stage>& stages);

// The ranks that hold the same heads of keys and values; one where there are enough heads for all.
RankGroup same_heads_group(const Mesh& mesh, const ModelRecipe& model);

double tensor_gradient_seconds(const TensorGradientShare& share, const Recipe& recipe, const Mesh& mesh,
                               const CollectiveCost& collectives);

}  // namespace llmtrain
