// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/joined_adapters.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "core/huggingface/tensor_values.h"

namespace llmtrain {
namespace {

at::Tensor whole(const WeightSource& weights, const Parameter& parameter) {
  return weights.read(parameter, whole_box(parameter));
}

// Calls visit(matrix, first row among all, index among those with adapters).
template <class Visit>
void for_matrices(const std::vector<std::size_t>& matrices, const Graph& graph, Visit visit) {
  std::int64_t row = 0, adapted = 0;
  for (const std::size_t index : matrices) {
    const Parameter& matrix = graph.parameters[index];
    visit(matrix, row, adapted);
    row += matrix.shape.front();
    if (matrix.adapter) ++adapted;
  }
}

}  // namespace

std::int64_t count_adapted(const std::vector<std::size_t>& matrices, const Graph& graph) {
  return std::ranges::count_if(matrices,
                               [&](std::size_t index) { return graph.parameters[index].adapter.has_value(); });
}

std::int64_t count_rows(const std::vector<std::size_t>& matrices, const Graph& graph) {
  std::int64_t rows = 0;
  for (const std::size_t index : matrices) rows += graph.parameters[index].shape.front();
  return rows;
}

ModuleAdapter joined_adapter(const std::vector<std::size_t>& matrices, const Graph& graph,
                             const WeightSource& weights) {
  const std::int64_t rank = graph.model.lora->rank, columns = rank * count_adapted(matrices, graph);
  std::vector<at::Tensor> a, magnitudes;
  ModuleAdapter joined;
  for_matrices(matrices, graph, [&](const Parameter& matrix, std::int64_t row, std::int64_t adapted) {
    if (matrix.adapter) {
      a.push_back(whole(weights, graph.parameters[matrix.adapter->a]));
      const at::Tensor b = whole(weights, graph.parameters[matrix.adapter->a + 1]);
      if (!joined.b.defined()) joined.b = b.new_zeros({count_rows(matrices, graph), columns});
      joined.b.narrow(0, row, b.size(0)).narrow(1, adapted * rank, rank).copy_(b);
    }
    if (!graph.model.lora->dora) return;
    const at::Tensor lengths = row_lengths(weights, matrix);
    magnitudes.push_back(
        matrix.adapter ? whole(weights, graph.parameters[matrix.adapter->a + 2]).to(at::kFloat) + lengths : lengths);
  });
  joined.a = at::cat(a, 0);
  if (!magnitudes.empty()) joined.magnitude = at::cat(magnitudes, 0);
  return joined;
}

bool split_adapter(const ModuleAdapter& adapter, const std::vector<std::size_t>& matrices, const Graph& graph,
                   NamedWeights& weights) {
  const std::int64_t rank = graph.model.lora->rank;
  const bool has_own_columns = adapter.a.size(0) != rank;
  at::Tensor rest = adapter.b.clone();
  for_matrices(matrices, graph, [&](const Parameter& matrix, std::int64_t row, std::int64_t adapted) {
    if (!matrix.adapter) return;
    const std::int64_t rows = matrix.shape.front(), column = has_own_columns ? adapted * rank : 0;
    const std::size_t first = matrix.adapter->a;
    weights[graph.parameters[first].name] = adapter.a.narrow(0, column, rank).contiguous();
    weights[graph.parameters[first + 1].name] = adapter.b.narrow(0, row, rows).narrow(1, column, rank).contiguous();
    rest.narrow(0, row, rows).narrow(1, column, rank).zero_();
    if (adapter.magnitude.defined())
      weights[graph.parameters[first + 2].name] = adapter.magnitude.narrow(0, row, rows).contiguous();
  });
  return rest.count_nonzero().item<std::int64_t>() == 0;
}

}  // namespace llmtrain
