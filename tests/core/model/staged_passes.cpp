// SPDX-License-Identifier: Apache-2.0
#include "tests/core/model/staged_passes.h"

#include <catch2/catch.hpp>
#include <memory>
#include <utility>

namespace llmtrain::test {

StagedPasses passes_through(const std::vector<std::vector<std::size_t>>& stages, const Graph& graph,
                            SmallModel::Options options, const PassInput& input) {
  std::vector<std::unique_ptr<SmallModel>> models;
  for (const std::vector<std::size_t>& blocks : stages) {
    options.blocks = blocks;
    models.push_back(std::make_unique<SmallModel>(graph, options));
  }
  StagedPasses passes;
  passes.losses.resize(graph.row_losses().size());
  Tensors values;
  for (const auto& model : models) {
    StagePasses::Output output = model->stage().forward(std::move(values), 0, input.batch, input.context);
    for (LossRows& losses : output.losses) passes.losses.at(losses.term) = std::move(losses.rows);
    passes.sent.push_back(output.values.size());
    values = std::move(output.values);
  }
  CHECK(values.empty());
  passes.sent.pop_back();
  for (auto model = models.rbegin(); model != models.rend(); ++model) {
    values = (*model)->stage().backward(std::move(values), 0, input.batch, input.context);
    for (auto& [name, gradient] : (*model)->take_gradients()) {
      // What no block of the stage writes is zero.
      const auto [place, is_new] = passes.gradients.try_emplace(name, gradient);
      if (!is_new) place->second = place->second.add(gradient);
    }
  }
  CHECK(values.empty());
  return passes;
}

}  // namespace llmtrain::test
