// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ops/from_blob.h>

#include "core/huggingface/tensor_dtype.h"
#include "core/huggingface/weight_source.h"
#include "parallel/engine/model_state.h"

namespace llmtrain::test {

// Copies of a model's weights, master weights where it has them. The model is on one rank and the CPU.
inline NamedWeights named_weights(const LocalModel& model) {
  NamedWeights weights;
  const StateSlices state = state_slices(model);
  for (const Parameter& parameter : model.graph().parameters)
    for (const TensorSlice& slice : state.slices) {
      if (slice.name != parameter.name && slice.name != parameter.name + ".master") continue;
      void* memory = const_cast<void*>(slice.data);
      weights[parameter.name] = at::from_blob(memory, slice.shape, at::dtype(tensor_type(slice.dtype))).clone();
      if (slice.name.ends_with(".master")) break;
    }
  return weights;
}

}  // namespace llmtrain::test
