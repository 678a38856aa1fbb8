// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/body/run/body_run.h"
#include "core/model/block_module.h"
#include "core/model/layers/block_parameters.h"

namespace llmtrain {

// Which axes of a body depend on the batch. Inputs, outputs and fields of rows of tokens begin with these two.
struct BatchAxes {
  body::AxisId sequences = 0, tokens = 0;
};

// A block that is what a body says: body inputs and outputs are the block's in this order, its parameters have the
// block's local names, and its fields those of the batch (core/base/batch_field.h). Under selective recompute it keeps
// what is costly, and its inputs alone where layers run again. Attention along the axis of tokens keeps to the batch's
// documents. Each rank has whole sequences and whole parameters: the constructor throws Error(internal_error) where
// tensor ranks share them, and the passes where context ranks do.
class ComposedBlock final : public BlockModule {
 public:
  ComposedBlock(const BlockParameters& parameters, body::Body body, BatchAxes axes, Recompute recompute);

  Output forward(Tensors inputs, const Batch& batch, const PassContext& pass) const override;
  Tensors backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                   std::unique_ptr<SavedActivations> saved) const override;

 private:
  class Weights;
  struct Saved;

  // The body in the shape of the batch.
  const body::BodyRun& run_of(const Batch& batch) const;
  body::BodyPass pass_of(const Batch& batch, const PassContext& pass) const;
  std::vector<at::Tensor> fields_of(const body::Body& filled, const Batch& batch) const;

  body::Body body_;
  BatchAxes axes_;
  body::Keeping keeping_;
  std::string name_;  // of the block
  std::map<body::TensorId, BoundParameter> bound_;
  mutable std::map<std::pair<std::int64_t, std::int64_t>, body::BodyRun> runs_;  // by sequences and their length
};

}  // namespace llmtrain
