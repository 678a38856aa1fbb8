// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/row_lengths.h"

#include <ATen/ops/linalg_vector_norm.h>

namespace llmtrain {

at::Tensor row_lengths(const at::Tensor& matrix) { return at::linalg_vector_norm(matrix, 2, {1}, false, at::kFloat); }

at::Tensor row_lengths(const WeightSource& weights, const Parameter& matrix) {
  return row_lengths(weights.read(matrix, whole_box(matrix)));
}

}  // namespace llmtrain
