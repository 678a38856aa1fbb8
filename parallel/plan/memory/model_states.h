// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"
#include "parallel/plan/mesh.h"
#include "parallel/plan/placement.h"
#include "parallel/plan/step_memory.h"

namespace llmtrain {

// Weights, gradients, master weights and optimizer states of one stage on its fullest rank.
struct ModelStates {
  MemoryBytes resident;            // what ZeRO leaves on the rank all the time
  double gathered_weights = 0;     // the stage's whole weights beside their shard: ZeRO-3
  double unreduced_gradients = 0;  // the stage's whole gradients beside their shard: ZeRO-2 and -3
  double fp8_gradients = 0;        // bytes of FP8 gradients before sharding
  double largest_block_weights = 0;
};

// ZeRO (Rajbhandari et al., arXiv 1910.02054) divides optimizer states and master weights (1), gradients (2) and
// weights (3) by the ranks of shard_group() (mesh.zero_shard × context), those of experts by the ranks among them, and
// among their tensor ranks, that hold the same experts. A shard is rounded up to whole elements. FP8 parameters have a
// scale a tensor, so whole tensors are dealt out, the largest first, each to the rank that has least (arXiv 2310.18313,
// algorithm 1). With tied embeddings and a pipeline the last stage holds a copy of the token embedding with all its
// states.
ModelStates model_states(const Recipe& recipe, const Graph& graph, const Mesh& mesh, const Stage& stage);

}  // namespace llmtrain
