// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/recipe.h"
#include "parallel/plan/mesh.h"

namespace llmtrain {

// What a mixture of experts moves for one micro-batch on one rank, under even routing.
struct ExpertTraffic {
  double places = 0;          // of all experts together, for this rank's tokens
  double local_experts = 0;   // on this rank
  double exchange_bytes = 0;  // the tensor of one all-to-all
};

// `recipe.model.moe` is set.
ExpertTraffic expert_traffic(const Recipe& recipe, const Mesh& mesh);

}  // namespace llmtrain
