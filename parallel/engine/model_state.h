// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/huggingface/huggingface.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// Moves a model's state between its flat memory and checkpoints. A checkpoint holds a parameter's weights as `<name>`
// in the compute type, its master weights as `<name>.master` and the optimizer's states (`<name>.m` and `<name>.v` for
// AdamW) in fp32. Without a rounded copy the weights are their own master and no `.master` is written.

// What this rank writes to a checkpoint: all ranks together write every element once, and ranks that hold the same
// elements write an equal share each. The slices point into the model's memory, or for a GPU into a host copy that
// `memory` owns.
struct StateSlices {
  std::vector<TensorSlice> slices;
  std::shared_ptr<const void> memory;
};
StateSlices state_slices(const LocalModel& model);

// Loads weights and optimizer states from a checkpoint; each rank reads what it owns, in pieces of bounded size. Throws
// Error(bad_data) if a tensor is missing or has another shape.
void load_state(LocalModel& model, const CheckpointReader& checkpoint);

// Loads only the weights, from a checkpoint (its master weights if it has them) or from named tensors.
void load_weights(LocalModel& model, const CheckpointReader& checkpoint);
void load_weights(LocalModel& model, const NamedWeights& weights);

// The model's weights on the CPU, by name, in their most precise form. The model must be on one rank.
NamedWeights named_weights(const LocalModel& model);

}  // namespace llmtrain
