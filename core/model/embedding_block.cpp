// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "core/base/hash.h"
#include "core/model/block_module.h"
#include "core/model/block_modules.h"
#include "core/model/key_value_cache.h"
#include "core/model/layers/block_parameters.h"
#include "kernels/embedding.h"

namespace llmtrain {
namespace {

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
  // Multiplies by the factor, rounded to the tensor's type as transformers does.
  void scale(const at::Tensor& rows) const;
  // Whether rows do not have the positions 0, 1, … of their sequences one after another, or only some of these rows, or
  // are scaled without their positions.
  bool looks_up_positions(const Sequences& sequences) const;
  // Looks tokens up in a table of which tensor ranks have parts.
  at::Tensor embed_split(const Batch& batch) const;
  void add_split_gradients(const at::Tensor& dy, const Batch& batch) const;
  void add_masked_gradients(const at::Tensor& dy, const at::Tensor& rows, at::Tensor& dtokens,
                            std::int64_t sequence_length) const;

  TensorSplit split_;
  double dropout_;
  double scale_;                // of the tokens' rows
  std::uint64_t dropout_site_;  // the same on every rank
  BoundParameter tokens_;
  std::optional<BoundParameter> positions_;
};

// Documents that share a sequence may have any positions of it on any rank, and else a rank has its part's alone.
kernels::SequencePart part_of_positions(const Sequences& sequences) {
  return sequences.positions.defined() ? kernels::SequencePart{} : sequences.part;
}

EmbeddingBlock::EmbeddingBlock(const BlockParameters& parameters, const EmbeddingSettings& settings)
    : split_(parameters.split()),
      dropout_(settings.dropout),
      scale_(settings.scale),
      dropout_site_(stable_hash(parameters.block().name)),
      tokens_(parameters.bind("token.weight")),
      positions_(parameters.bind_if_there("position.weight")) {}

void EmbeddingBlock::drop(at::Tensor& activation, const Batch& batch, const PassContext& pass) const {
  // The rows' positions decide the mask, so it does not depend on the layout.
  const auto own = split_.own_dropout(activation, batch.sequences(), pass, dropout_, dropout_site_);
  kernels::dropout_rows_(activation, own.dropout, own.rows);
}

at::Tensor EmbeddingBlock::rows_of(const at::Tensor& tokens) const {
  return tokens.sub(split_.position() * tokens_.part().shape[0]);
}

at::Tensor EmbeddingBlock::is_elsewhere(const at::Tensor& rows) const {
  return rows.lt(0).logical_or_(rows.ge(tokens_.part().shape[0]));
}

at::Tensor EmbeddingBlock::position_ids(std::int64_t rows, const Batch& batch) const {
  const Sequences& sequences = batch.sequences();
  const std::int64_t first = split_.first_row(rows);
  if (sequences.positions.defined()) return sequences.positions.narrow(0, first, rows);
  return at::arange(first, first + rows, batch.field(BatchField::token_ids).options()).remainder_(sequences.length);
}

bool EmbeddingBlock::looks_up_positions(const Sequences& sequences) const {
  return split_.ranks() > 1 || sequences.positions.defined() || scale_ != 1;
}

void EmbeddingBlock::scale(const at::Tensor& rows) const {
  if (scale_ != 1) rows.mul_(at::scalar_tensor(scale_, rows.options()));
}

// Looks up this rank's part of the vocabulary and sums over the tensor ranks: exactly one rank has each token's row, so
// the sum adds only zeros to it and is exact.
at::Tensor EmbeddingBlock::embed_split(const Batch& batch) const {
  const at::Tensor rows = rows_of(batch.field(BatchField::token_ids));
  const at::Tensor table = tokens_.weight();
  // Clamped, so that tokens of other ranks read some row; the mask below removes it before the sum.
  at::Tensor y =
      kernels::embedding_forward(rows.clamp(0, table.size(0) - 1), table, std::nullopt, batch.sequences().length);
  return split_.own_sum(y.masked_fill_(is_elsewhere(rows).unsqueeze(1), 0));
}

BlockModule::Output EmbeddingBlock::forward(Tensors, const Batch& batch, const PassContext& pass) const {
  const Sequences& sequences = batch.sequences();
  const at::Tensor& tokens = batch.field(BatchField::token_ids);
  std::optional<at::Tensor> positions;
  if (positions_)
    positions = pass.cache != nullptr
                    ? pass.cache->rows_of(positions_->weight())
                    : kernels::rows_at(positions_->weight(), part_of_positions(sequences), sequences.length);
  const bool looks_up = looks_up_positions(sequences);
  // Looked up after the sum over the ranks, which would otherwise add the positions once per rank.
  const auto added = looks_up ? std::nullopt : positions;
  at::Tensor y = split_.ranks() == 1 ? kernels::embedding_forward(tokens, tokens_.weight(), added, sequences.length)
                                     : embed_split(batch);
  scale(y);
  if (positions && looks_up)
    y.add_(kernels::embedding_forward(position_ids(y.size(0), batch), *positions, std::nullopt, sequences.length));
  if (pass.trains()) drop(y, batch, pass);
  // The backward needs only the tokens, which the batch has.
  return {Tensors{std::move(y)}, nullptr};
}

void EmbeddingBlock::add_split_gradients(const at::Tensor& dy, const Batch& batch) const {
  // The positions' gradient uses this rank's rows; the token table needs all rows, since any of them may be in its part
  // of the vocabulary.
  const at::Tensor whole = split_.whole_rows(dy);
  at::Tensor dtokens = tokens_.added_gradient();
  const at::Tensor rows = rows_of(batch.field(BatchField::token_ids));
  if (!rows.is_cpu()) return add_masked_gradients(whole, rows, dtokens, batch.sequences().length);
  // Rows of this rank's tokens only: a gradient has no row for the others.
  const at::Tensor here = is_elsewhere(rows).logical_not_().nonzero().squeeze(1);
  if (here.numel() == 0) return;
  kernels::embedding_backward(whole.index_select(0, here), rows.index_select(0, here), dtokens, std::nullopt,
                              batch.sequences().length);
}

// On a GPU how many rows there are would have to be waited for: those of other ranks' tokens add zeros, each to another
// row of the table, as one block adds all that go to the same.
void EmbeddingBlock::add_masked_gradients(const at::Tensor& dy, const at::Tensor& rows, at::Tensor& dtokens,
                                          std::int64_t sequence_length) const {
  const at::Tensor elsewhere = is_elsewhere(rows);
  const at::Tensor spread = at::arange(rows.size(0), rows.options()).remainder_(dtokens.size(0));
  kernels::embedding_backward(dy.masked_fill(elsewhere.unsqueeze(1), 0), at::where(elsewhere, spread, rows), dtokens,
                              std::nullopt, sequence_length);
}

Tensors EmbeddingBlock::backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                                 std::unique_ptr<SavedActivations>) const {
  at::Tensor dy = std::move(gradients.front());
  const Sequences& sequences = batch.sequences();
  // The mask of the forward, generated again.
  drop(dy, batch, pass);
  const bool trains_tokens = !tokens_.is_frozen();
  at::Tensor all_positions;
  std::optional<at::Tensor> dpositions;
  if (positions_ && !positions_->is_frozen()) {
    all_positions = positions_->added_gradient();
    // A rank that holds a part of each sequence adds to its positions only; rows_at() copies them and store_rows_at()
    // puts the sums back.
    dpositions = kernels::rows_at(all_positions, part_of_positions(sequences), sequences.length);
  }
  // Otherwise the kernel that makes the tokens' gradient makes both.
  const bool is_apart = looks_up_positions(sequences) || !trains_tokens;
  if (dpositions && is_apart)
    kernels::embedding_backward(dy, position_ids(dy.size(0), batch), *dpositions, std::nullopt, sequences.length);
  if (trains_tokens) scale(dy);
  if (trains_tokens && split_.ranks() == 1) {
    at::Tensor dtokens = tokens_.added_gradient();
    kernels::embedding_backward(dy, batch.field(BatchField::token_ids), dtokens, is_apart ? std::nullopt : dpositions,
                                sequences.length);
  } else if (trains_tokens) {
    add_split_gradients(dy, batch);
  }
  if (dpositions) kernels::store_rows_at(all_positions, part_of_positions(sequences), *dpositions);
  return {};
}

}  // namespace

std::unique_ptr<BlockModule> module_of(const EmbeddingSettings& settings, const BlockParameters& parameters,
                                       const StageOptions&, KeptExchanges*) {
  return std::make_unique<EmbeddingBlock>(parameters, settings);
}

}  // namespace llmtrain
