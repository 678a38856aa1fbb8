// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/tensor_values.h"

#include <ATen/ops/cat.h>

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

}  // namespace llmtrain
