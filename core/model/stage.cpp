// SPDX-License-Identifier: Apache-2.0
#include "core/model/stage.h"

#include <utility>

#include "core/model/embedding_block.h"
#include "core/model/transformer_layer.h"

namespace llmtrain {
namespace {

std::unique_ptr<HeadBlock> make_head(const Graph& graph, const BlockParameters& parameters,
                                     ParameterStore& embedding_store, const TensorSplit& split) {
  if (const auto own = parameters.optional_index(ParameterRole::head_weight))
    return std::make_unique<HeadBlock>(parameters, parameters.store(), *own);
  const BlockParameters embedding(graph, 0, embedding_store, split);
  return std::make_unique<HeadBlock>(parameters, embedding_store, embedding.index(ParameterRole::token_embedding));
}

}  // namespace

std::vector<std::size_t> parameters_of(const Graph& graph, std::span<const std::size_t> blocks) {
  std::vector<std::size_t> parameters;
  for (const std::size_t block : blocks)
    parameters.insert(parameters.end(), graph.blocks[block].parameters.begin(), graph.blocks[block].parameters.end());
  return parameters;
}

StageModule::StageModule(const Graph& graph, std::span<const std::size_t> blocks, ParameterStore& store,
                         ParameterStore& embedding_store, const StageOptions& options) {
  const TensorSplit split(options.tensor, options.rows);
  for (const std::size_t block : blocks) {
    const BlockParameters parameters(graph, block, store, split);
    switch (graph.blocks[block].kind) {
      case BlockKind::embedding:
        blocks_.push_back(std::make_unique<EmbeddingBlock>(parameters, embedding_store));
        break;
      case BlockKind::layer:
        blocks_.push_back(std::make_unique<TransformerLayer>(parameters, options.attention, options.recompute,
                                                             options.rope, options.context));
        break;
      case BlockKind::head: {
        auto head = make_head(graph, parameters, embedding_store, split);
        head_ = head.get();
        blocks_.push_back(std::move(head));
        break;
      }
    }
  }
}

at::Tensor StageModule::forward(at::Tensor x, std::int64_t index, const MicroBatch& micro, Pass pass) {
  SavedBlocks saved;
  for (const auto& block : blocks_) {
    BlockModule::Output output = block->forward(x, micro, pass);
    x = std::move(output.activation);
    saved.push_back(std::move(output.saved));
  }
  if (pass == Pass::training) saved_[index] = std::move(saved);
  return x;
}

at::Tensor StageModule::backward(at::Tensor dy, std::int64_t index, const MicroBatch& micro) {
  SavedBlocks saved = std::move(saved_.at(index));
  saved_.erase(index);
  for (std::size_t i = blocks_.size(); i-- > 0;) dy = blocks_[i]->backward(std::move(dy), micro, std::move(saved[i]));
  return dy;
}

at::Tensor StageModule::logits(at::Tensor x, const MicroBatch& micro) {
  for (std::size_t i = 0; i + 1 < blocks_.size(); ++i) x = blocks_[i]->forward(x, micro, Pass::evaluation).activation;
  return head_->logits(x);
}

}  // namespace llmtrain
