// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/layout/layout.h"
#include "parallel/plan/cost/priced_layout.h"
#include "parallel/plan/profile/program.h"
#include "parallel/plan/simulator/step_memory.h"

namespace llmtrain {

// Every byte that the ranks hold in one training step, by stage and micro-batch; the schedule determines how many
// micro-batches are in flight. Of this program it is what one rank's runner allocates (core/model, core/optim,
// parallel/engine).
//
// memory.offload: `optimizer` moves master weights and moments to the host or to a file, `weights` the shards of
// ZeRO-3, and `activations` what is saved, except for two blocks.
//
// With Fp8Layers::after_fallback it is the most that a step needs however many layers precision.high_precision's
// fallback_steps has taken out of FP8: what such a layer keeps for its backward is as wide as without FP8, and its
// whole gradients wait for the optimizer on every data rank. Working memory stays that of FP8 products, because any of
// the layers may still be in FP8.
enum class Fp8Layers { of_recipe, after_fallback };
StepMemory make_step_memory(const PricedLayout& priced, Fp8Layers fp8 = Fp8Layers::of_recipe);
// The same but for the workspace of the optimizer, which with Muon takes longer to compute than all else: for bounds.
StepMemory make_pass_memory(const PricedLayout& priced, Fp8Layers fp8 = Fp8Layers::of_recipe);

// Weights, gradients, master weights and optimizer states of one stage on its fullest rank, and the weights that it
// gathers. ZeRO (Rajbhandari et al., arXiv 1910.02054) divides optimizer states and master weights (1), gradients (2)
// and weights (3) of each group by the ranks that share it.
StageMemory model_states(const Partition& partition, std::size_t stage, const Program& program = {});

// The copy of what one rank writes of a stage to a checkpoint, while training goes on: on a CPU it is memory of the
// same kind, made before the first step (parallel/run/checkpoint_saver.h), and no tensor. 0 without regular
// checkpoints, or where training waits for them.
double checkpoint_copy_bytes(const Partition& partition, std::size_t stage);

}  // namespace llmtrain
