// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "core/graph/graph.h"
#include "core/huggingface/weight_source.h"

namespace llmtrain {

// The Euclidean length of each row of a matrix [rows, columns]: fp32 [rows].
at::Tensor row_lengths(const at::Tensor& matrix);
// The same of a parameter, which is read as a whole.
at::Tensor row_lengths(const WeightSource& weights, const Parameter& matrix);

}  // namespace llmtrain
