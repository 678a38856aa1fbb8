// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/tensor_slice.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// What checkpoints keep of the steps before, from which FP8 scales follow and which layers have left FP8.
//
// Delayed scaling: of each linear layer that multiplies FP8 the maxima of its operands in the steps
// before, `<name of its first weight>.amax_history` in fp32 [steps, 3]: inputs, weights and gradients of outputs, the
// newest step first and 0 for those that have not been, and `<name>.overflow` in fp32 [2]: in how many steps in a row
// up to the last one an operand was beyond the range of its scale, and 1 where its products have left FP8. Where FP8
// gradients may leave on their own, `<name>.gradient_overflow` of each of their matrices: the same of steps in which
// too many of their sums saturated. They are of logical tensors, so that any layout reads them.

// Appends what the first rank writes for all; the slices point into the model.
void add_fp8_history(std::vector<TensorSlice>& slices, const LocalModel& model);

// Takes the histories of the checkpoint, of which a model of weights alone needs which layers have left FP8; layers of
// which it has none begin anew. Throws Error(bad_data) where they are no maxima.
void read_fp8_history(const CheckpointReader& checkpoint, LocalModel& model);
// Takes which gradients have left FP8; errors likewise.
void read_gradient_fallback(const CheckpointReader& checkpoint, LocalModel& model);

}  // namespace llmtrain
