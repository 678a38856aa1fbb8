// SPDX-License-Identifier: Apache-2.0
#include "core/model/embedding_block.h"

#include "core/base/hash.h"
#include "kernels/embedding.h"

namespace llmtrain {

EmbeddingBlock::EmbeddingBlock(const BlockParameters& parameters, ParameterStore& token_store)
    : token_store_(token_store),
      store_(parameters.store()),
      dropout_(parameters.model().dropout),
      tokens_(parameters.index(ParameterRole::token_embedding)),
      positions_(parameters.optional_index(ParameterRole::position_embedding)) {}

void EmbeddingBlock::drop(at::Tensor& activation, const MicroBatch& micro) const {
  if (dropout_ > 0) drop_rows_(activation, micro, dropout_, stable_hash("embedding"));
}

BlockModule::Output EmbeddingBlock::forward(const at::Tensor&, const MicroBatch& micro, Pass pass) const {
  std::optional<at::Tensor> positions;
  if (positions_) positions = kernels::rows_at(store_.weight(*positions_), micro.part, micro.sequence);
  at::Tensor y = kernels::embedding_forward(micro.tokens, token_store_.weight(tokens_), positions, micro.sequence);
  if (pass == Pass::training) drop(y, micro);
  return {std::move(y), nullptr};
}

at::Tensor EmbeddingBlock::backward(at::Tensor dy, const MicroBatch& micro, std::unique_ptr<SavedActivations>) const {
  drop(dy, micro);
  at::Tensor dtokens = token_store_.added_gradient(tokens_);
  std::optional<at::Tensor> dpositions;
  at::Tensor all_positions;
  if (positions_) {
    all_positions = store_.added_gradient(*positions_);
    dpositions = kernels::rows_at(all_positions, micro.part, micro.sequence);
  }
  kernels::embedding_backward(dy, micro.tokens, dtokens, dpositions, micro.sequence);
  if (positions_) kernels::store_rows_at(all_positions, micro.part, *dpositions);
  return {};
}

}  // namespace llmtrain
