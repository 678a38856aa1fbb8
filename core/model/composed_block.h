// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
// what is costly, and its inputs alone where layers run again. Attention along the axis of tokens keeps to the batch's
// documents. Outputs that a cross-entropy makes are the losses of rows in the block's terms, in their order: 0 for rows
// that do not count, which have no gradient, and in prediction the logits in their place. Each rank has whole sequences
// and whole parameters: the constructor throws Error(internal_error) where tensor ranks share them, and the passes
// where context ranks do.
class ComposedBlock final : public BlockModule {
 public:
  ComposedBlock(const BlockParameters& parameters, body::Body body, BatchAxes axes, Recompute recompute);

  Output forward(Tensors inputs, const Batch& batch, const PassContext& pass) const override;
  Tensors backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                   std::unique_ptr<SavedActivations> saved) const override;

 private:
  class Weights;
  struct Saved;

  // The body in the shape of the batch; in prediction one that ends with its logits.
  const body::BodyRun& run_of(const Batch& batch, const PassContext& pass) const;
  body::BodyPass pass_of(const Batch& batch, const PassContext& pass) const;
  at::Tensor field_of(std::string_view name, const Batch& batch, const PassContext& pass) const;
  std::vector<at::Tensor> fields_of(const body::Body& filled, const Batch& batch, const PassContext& pass) const;

  body::Body body_, predicting_;
  BatchAxes axes_;
  body::Keeping keeping_;
  std::string name_;  // of the block
  std::map<body::TensorId, BoundParameter> bound_;
  std::vector<std::optional<std::size_t>> terms_;  // by output, the term of the loss that it is of
  // By sequences, their length and whether they are predicted.
  mutable std::map<std::tuple<std::int64_t, std::int64_t, bool>, body::BodyRun> runs_;
};

}  // namespace llmtrain
