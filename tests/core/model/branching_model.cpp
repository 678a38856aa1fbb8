// SPDX-License-Identifier: Apache-2.0
#include "tests/core/model/branching_model.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <utility>

#include "core/model/layers/block_parameters.h"

namespace llmtrain::test {
namespace {

// A block that reads the sum of its inputs.
class SummingBlock final : public BlockModule {
 public:
  explicit SummingBlock(std::unique_ptr<BlockModule> inner) : inner_(std::move(inner)) {}

  Output forward(Tensors inputs, const Batch& batch, const PassContext& pass) const override {
    at::Tensor sum = inputs[0].add(inputs[1]);
    inputs.clear();
    return inner_->forward({std::move(sum)}, batch, pass);
  }

  Tensors backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                   std::unique_ptr<SavedActivations> saved) const override {
    Tensors of_inputs = inner_->backward(std::move(gradients), batch, pass, std::move(saved));
    of_inputs.push_back(of_inputs.front().clone());
    return of_inputs;
  }

 private:
  std::unique_ptr<BlockModule> inner_;
};

}  // namespace

void branch(Graph& graph) {
  const auto made_by = [&](std::size_t layer) { return graph.blocks[layer + 1].outputs.front(); };
  graph.blocks[3].inputs = {made_by(0)};
  graph.blocks[4].inputs = {made_by(2), made_by(1)};
  graph.blocks[6].inputs = {made_by(4), made_by(0)};
  for (const std::size_t block : {4, 6}) graph.blocks[block].alike = block;
}

Graph branching_graph(const ModelRecipe& model) {
  Graph graph = Graph::build(model);
  branch(graph);
  return graph;
}

std::unique_ptr<BlockModule> make_summing_block(const BlockParameters& parameters, const StageOptions& options,
                                                KeptExchanges* kept) {
  std::unique_ptr<BlockModule> block = make_block(parameters, options, kept);
  if (parameters.block().inputs.size() < 2) return block;
  return std::make_unique<SummingBlock>(std::move(block));
}

}  // namespace llmtrain::test
