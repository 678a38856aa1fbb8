// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/body/run/body_run.h"
#include "core/graph/blocks/body_block.h"
#include "core/model/block_module.h"
#include "core/model/layers/block_parameters.h"

namespace llmtrain {

// A block that is what a body says: body inputs and outputs are the block's in this order, its parameters have the
// block's local names, and its fields those of the batch (core/base/batch_field.h). Under selective recompute it keeps
// what is costly, and its inputs alone where layers run again. In training and evaluation what takes most memory runs
// in `chunks` pieces. Attention along the axis of tokens keeps to the batch's documents. Outputs that a cross-entropy
// makes are the losses of rows in the block's terms, in their order: of rows of tokens where they have the axis of
// tokens, and else of samples. They are 0 for rows of tokens that do not count, which have no gradient; in prediction
// the logits are in their place, and in evaluation beside them where they tell classes;
// PassContext::returns_hidden_rows has what a head reads in place of logits. In prediction with a cache the last axis
// of token rows holds new tokens of sequences that grow, as KeyValueCache has them, whose causal attention and whose
// attention to other rows remember; a pass without rows of another axis computes nothing of these. Each rank has whole
// sequences and whole parameters: the constructor throws Error(internal_error) where tensor ranks share them, and the
// passes where context ranks do.
class ComposedBlock final : public BlockModule {
 public:
  ComposedBlock(const BlockParameters& parameters, body::Body body, const BodyDescription& described,
                Recompute recompute, std::int64_t chunks = 1);

  Output forward(Tensors inputs, const Batch& batch, const PassContext& pass) const override;
  Tensors backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                   std::unique_ptr<SavedActivations> saved) const override;

 private:
  class Weights;
  struct Saved;

  // An output that is the losses of rows.
  struct Loss {
    std::size_t term = 0;
    bool is_of_tokens = false;
  };
  // The body in the shape of the batch, and where it reads relative positions the buckets of all their distances.
  struct Shaped {
    body::BodyRun run;
    at::Tensor buckets{};
  };

  // In prediction a body that ends with its logits, and in evaluation one that may end with both.
  Shaped& shaped(const Batch& batch, const PassContext& pass) const;
  const body::Body& body_in(PassMode mode) const;
  // Adds what the body has made: its values, or what its losses are in this mode.
  void add_output(Output& output, std::size_t place, const at::Tensor& made, const Batch& batch,
                  const PassContext& pass) const;
  body::BodyPass pass_of(const Batch& batch, const PassContext& pass) const;
  at::Tensor field_of(const body::BodyTensor& field, const Batch& batch, const PassContext& pass) const;
  // `device`: where the block computes, which a batch without fields does not say.
  std::vector<at::Tensor> fields_of(Shaped& shaped, const Batch& batch, const PassContext& pass,
                                    const std::optional<at::Device>& device) const;
  // Whether it is a head.
  bool raises_losses() const;
  // Whether its rows are tokens of sequences that grow.
  bool grows(const Batch& batch, const PassContext& pass) const {
    return pass.cache != nullptr && axes_.rows + 1 == batch.rows.size();
  }
  // [queries, keys] of the buckets of relative positions.
  at::Tensor buckets_of(Shaped& shaped, const std::vector<std::int64_t>& shape, const Batch& batch,
                        const PassContext& pass, const std::optional<at::Device>& device) const;
  // The sequences of the rows that its outputs have.
  const Sequences& sequences_of(const Batch& batch) const { return batch.rows.at(axes_.rows); }

  body::Body body_, predicting_, evaluating_;
  BatchAxes axes_;
  std::optional<body::RelativeBuckets> buckets_;
  body::Keeping keeping_;
  std::int64_t chunks_;
  std::string name_;                                          // of the block
  std::map<std::string, BoundParameter, std::less<>> bound_;  // by local name
  std::vector<std::optional<Loss>> losses_;                   // by output of body_
  // By sequences, their lengths along each axis of tokens, and what passes are for.
  mutable std::map<std::tuple<std::int64_t, std::vector<std::int64_t>, PassMode>, Shaped> runs_;
};

}  // namespace llmtrain
