// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/resized_weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "core/graph/grown_vocabulary.h"
#include "core/huggingface/huggingface.h"
#include "core/recipe/model_from/huggingface_config.h"

namespace llmtrain {

ResizedWeights::ResizedWeights(std::unique_ptr<const WeightSource> weights, const Graph& graph, std::int64_t tokens)
    : weights_(std::move(weights)), rows_(rows_with_fewer_tokens(graph, tokens)) {}

// In fp64 and in the order of the rows, so that the mean depends on neither threads nor ranks.
at::Tensor ResizedWeights::mean_of(const Parameter& parameter, std::int64_t rows) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = means_.find(parameter.name); found != means_.end()) return found->second;
  Parameter there = parameter;
  there.shape.front() = rows;
  const auto columns = static_cast<std::size_t>(there.elements() / rows);
  std::vector<double> sums(columns);
  std::size_t column = 0;
  visit_pieces(*weights_, there, std::nullopt, at::kDouble, [&](const at::Tensor& piece) {
    const double* values = piece.const_data_ptr<double>();
    for (std::int64_t i = 0; i < piece.numel(); ++i) {
      sums[column] += values[i];
      column = column + 1 == columns ? 0 : column + 1;
    }
  });
  for (double& sum : sums) sum /= static_cast<double>(rows);
  const std::vector<std::int64_t> shape(there.shape.begin() + 1, there.shape.end());
  return means_[parameter.name] = at::from_blob(sums.data(), shape, at::dtype(at::kDouble)).clone();
}

at::Tensor ResizedWeights::read(const Parameter& parameter, const SliceBox& box) const {
  const auto found = rows_.find(parameter.name);
  const std::int64_t first = box.offset.front(), count = box.shape.front();
  if (found == rows_.end() || first + count <= found->second) return weights_->read(parameter, box);
  const std::int64_t known = std::max<std::int64_t>(0, found->second - first);
  at::Tensor values = at::empty(box.shape, at::dtype(type(parameter)));
  if (known > 0) {
    SliceBox there = box;
    there.shape.front() = known;
    values.narrow(0, 0, known).copy_(weights_->read(parameter, there));
  }
  at::Tensor mean = mean_of(parameter, found->second);
  for (std::size_t axis = 1; axis < box.shape.size(); ++axis)
    mean = mean.narrow(static_cast<std::int64_t>(axis) - 1, box.offset[axis], box.shape[axis]);
  values.narrow(0, known, count - known).copy_(mean.expand_as(values.narrow(0, known, count - known)));
  return values;
}

std::unique_ptr<const WeightSource> open_huggingface(const std::filesystem::path& folder, const Graph& graph) {
  const std::int64_t tokens = model_recipe_from_huggingface(folder).vocab_size;
  if (tokens >= graph.model.vocab_size) return std::make_unique<HuggingfaceWeights>(folder, graph);
  require_trained_rows(graph, tokens, (folder / "config.json").string());
  ModelRecipe stored = graph.model;
  stored.vocab_size = tokens;
  return std::make_unique<ResizedWeights>(std::make_unique<HuggingfaceWeights>(folder, Graph::build(stored)), graph,
                                          tokens);
}

}  // namespace llmtrain
