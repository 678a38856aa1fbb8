// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/saved_tensors.h"
#include "core/recipe/recipe.h"
#include "parallel/plan/mesh.h"
#include "parallel/plan/placement.h"

namespace llmtrain {

// How a rank of the mesh runs a block on one micro-batch of the recipe.
PassSetting pass_setting(const Recipe& recipe, const Mesh& mesh, KernelSet kernels);

// Activations of one stage and one micro-batch, as StageMemory counts them.
struct StageActivations {
  double saved = 0;
  double forward_workspace = 0;
  double backward_workspace = 0;
  double boundary = 0;
  double largest_block = 0;  // of what is saved
};

// Which ends of a stage touch another stage of the same rank (pipeline 1): its output is saved here, its input there.
struct StageEnds {
  bool receives_locally = false;
  bool hands_on_locally = false;
};

StageActivations stage_activations(const Graph& graph, const Stage& stage, const PassSetting& setting,
                                   const StageEnds& ends);

}  // namespace llmtrain
