// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"
#include "core/graph/saved_tensors.h"
#include "core/recipe/recipe.h"
#include "parallel/plan/mesh.h"
#include "parallel/plan/placement.h"
#include "parallel/plan/step_memory.h"

namespace llmtrain {

// Every byte that the ranks of the mesh hold in one training step, stage by stage and micro-batch by micro-batch; how
// many micro-batches are in flight is the schedule's to say. `stages` come from place_blocks(), the recipe is resolved
// and valid. With KernelSet::cpu it is what one rank's runner allocates (core/model, core/optim, parallel/engine).
//
// memory.offload: `optimizer` moves master weights and moments to the host, `weights` the shards of ZeRO-3, or without
// it all but two blocks' weights, `activations` what is saved, of which two blocks stay on the device. Moved bytes are
// in host_resident and host_activations.
StepMemory make_step_memory(const Recipe& recipe, const Graph& graph, const Mesh& mesh,
                            const std::vector<Stage>& stages, KernelSet kernels);

}  // namespace llmtrain
