// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/model/block_module.h"
#include "core/model/block_parameters.h"

namespace llmtrain {

// Token embedding, plus learned positions where the model has them, plus dropout.
class EmbeddingBlock final : public BlockModule {
 public:
  // `token_store` holds the token embedding, the block's own store the rest.
  EmbeddingBlock(const BlockParameters& parameters, ParameterStore& token_store);

  Output forward(const at::Tensor& x, const MicroBatch& micro, Pass pass) const override;
  at::Tensor backward(at::Tensor dy, const MicroBatch& micro, std::unique_ptr<SavedActivations> saved) const override;

 private:
  void drop(at::Tensor& activation, const MicroBatch& micro) const;

  ParameterStore& token_store_;
  ParameterStore& store_;
  double dropout_;
  std::size_t tokens_;
  std::optional<std::size_t> positions_;
};

}  // namespace llmtrain
