// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/tensor_values.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmtrain {

at::Tensor values_of(const HuggingfaceTensor& tensor, const Graph& graph, const WeightSource& weights) {
  std::vector<at::Tensor> parts;
  for (const std::size_t index : tensor.parameters)
    parts.push_back(weights.read(graph.parameters[index], whole_box(graph.parameters[index])));
  const at::Tensor whole = parts.size() == 1 ? parts.front() : at::cat(parts, 0);
  return tensor.transposed ? whole.t().contiguous() : whole;
}

void add_parameters(const HuggingfaceTensor& tensor, const Graph& graph, const at::Tensor& values,
                    NamedWeights& weights) {
  const at::Tensor whole = tensor.transposed ? values.t() : values;
  std::int64_t row = 0;
  for (const std::size_t index : tensor.parameters) {
    const Parameter& parameter = graph.parameters[index];
    weights[parameter.name] = whole.narrow(0, row, parameter.shape.front()).contiguous();
    row += parameter.shape.front();
  }
}

at::Tensor row_lengths(const at::Tensor& matrix) { return at::linalg_vector_norm(matrix, 2, {1}, false, at::kFloat); }

at::Tensor row_lengths(const WeightSource& weights, const Parameter& matrix) {
  return row_lengths(weights.read(matrix, whole_box(matrix)));
}

}  // namespace llmtrain
