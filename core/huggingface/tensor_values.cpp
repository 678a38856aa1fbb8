// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/tensor_values.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/finite_weights.h"
#include "core/huggingface/tensor_dtype.h"

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

double largest_magnitude(const at::Tensor& values) {
  if (values.numel() == 0) return 0;
  // Without memory for results, which a step's plan would have to count.
  if (values.is_cpu() && values.is_contiguous()) {
    const auto* bytes = static_cast<const std::byte*>(values.const_data_ptr());
    if (const auto largest = largest_magnitude(dtype_name(values.scalar_type()), {bytes, values.nbytes()}))
      return *largest;
  }
  const auto [least, most] = at::aminmax(values);
  const double low = least.item<double>(), high = most.item<double>();
  return std::isnan(low) ? low : std::max(std::abs(low), std::abs(high));
}

void require_finite(const at::Tensor& values, const std::string& what) {
  if (!std::isfinite(largest_magnitude(values)))
    throw Error(ExitCode::bad_data, what +
                                        " has values that are NaN or infinite, which no training mends; take the "
                                        "weights from before they diverged, or download them again");
}

}  // namespace llmtrain
