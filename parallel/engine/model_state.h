// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/huggingface.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// Moves a model's state between its flat memory and checkpoints. A checkpoint names a parameter's weights `<name>` in
// the compute type, and `<name>.master`, `<name>.m`, `<name>.v` in fp32; without a rounded copy the weights are their
// own master and no `.master` is written.

// Slices of the whole model on the first rank, none on the others: all ranks of the model call it together. They point
// into the model's memory, and where that is on a GPU or on other ranks into copies; `copies` must live as long.
std::vector<TensorSlice> state_slices(const LocalModel& model, std::vector<at::Tensor>& copies);

// Sets weights and moments from a checkpoint, of which each rank reads what it owns. Throws Error(bad_data) when a
// tensor is missing or has another shape.
void load_state(LocalModel& model, const CheckpointReader& checkpoint);

// Sets the weights alone, from a checkpoint (its master weights where it has them) or from named tensors.
void load_weights(LocalModel& model, const CheckpointReader& checkpoint);
void load_weights(LocalModel& model, const NamedWeights& weights);

// The model's weights in fp32 on the CPU, by name; of a model on one rank.
NamedWeights named_weights(const LocalModel& model);

}  // namespace llmtrain
