// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/model/block_module.h"
#include "core/model/layers/block_parameters.h"

namespace llmtrain {

// Token embedding, plus learned positions where the model has them, plus dropout. Each tensor rank holds some rows of
// the token table and all positions: a token whose row is on another rank contributes zero here, and the sum over the
// ranks is the embedding.
class EmbeddingBlock final : public BlockModule {
 public:
  EmbeddingBlock(const BlockParameters& parameters, const EmbeddingSettings& settings);

  Output forward(Tensors inputs, const Batch& batch, const PassContext& pass) const override;
  Tensors backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                   std::unique_ptr<SavedActivations> saved) const override;

 private:
  void drop(at::Tensor& activation, const Batch& batch, const PassContext& pass) const;
  // The tokens' rows in this rank's table, out of its range for tokens of other ranks.
  at::Tensor rows_of(const at::Tensor& tokens) const;
  at::Tensor is_elsewhere(const at::Tensor& rows) const;
  // Positions of this rank's rows of the activation.
  at::Tensor position_ids(std::int64_t rows, const Batch& batch) const;
  // Whether rows do not have the positions 0, 1, … of their sequences one after another, or only some of these rows.
  bool looks_up_positions(const Sequences& sequences) const;
  // Looks tokens up in a table of which tensor ranks have parts.
  at::Tensor embed_split(const Batch& batch) const;
  void add_split_gradients(const at::Tensor& dy, const Batch& batch) const;
  void add_masked_gradients(const at::Tensor& dy, const at::Tensor& rows, at::Tensor& dtokens,
                            std::int64_t sequence_length) const;

  TensorSplit split_;
  double dropout_;
  std::uint64_t dropout_site_;  // the same on every rank
  BoundParameter tokens_;
  std::optional<BoundParameter> positions_;
};

}  // namespace llmtrain
