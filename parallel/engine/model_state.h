// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/huggingface/huggingface.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// Moves a model's state between its flat memory and checkpoints. A checkpoint names a parameter's weights `<name>` in
// the compute type, `<name>.master`, and the optimizer's states, of AdamW `<name>.m` and `<name>.v`, in fp32; without a
// rounded copy the weights are their own master and no `.master` is written.

// What this rank writes to a checkpoint: of all ranks together every element once, of what several ranks have each one
// an even share. The slices point into the model's memory; where that is on a GPU, into a copy that `memory` owns.
struct StateSlices {
  std::vector<TensorSlice> slices;
  std::shared_ptr<const void> memory;
};
StateSlices state_slices(const LocalModel& model);

// Sets weights and the optimizer's states from a checkpoint, of which each rank reads what it owns, a bounded piece at
// a time. Throws Error(bad_data) when a tensor is missing or has another shape.
void load_state(LocalModel& model, const CheckpointReader& checkpoint);

// Sets the weights alone, from a checkpoint (its master weights where it has them) or from named tensors.
void load_weights(LocalModel& model, const CheckpointReader& checkpoint);
void load_weights(LocalModel& model, const NamedWeights& weights);

// The model's weights on the CPU, by name, in their most exact form; of a model on one rank.
NamedWeights named_weights(const LocalModel& model);

}  // namespace llmtrain
