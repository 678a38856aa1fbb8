// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/model/moe/layer_routing.h"
#include "core/model/pass/pass_context.h"

namespace llmtrain {

// The tensors of one micro-batch that a block keeps between its forward and its backward.
struct SavedActivations {
  SavedActivations() = default;
  SavedActivations(const SavedActivations&) = delete;
  SavedActivations& operator=(const SavedActivations&) = delete;
  virtual ~SavedActivations() = default;
};

// One block of the Graph with its arithmetic. Forward and backward are written out, not recorded: any micro-batch's
// backward may run at any time after its forward, in any order, which is what pipeline schedules need.
class BlockModule {
 public:
  BlockModule() = default;
  BlockModule(const BlockModule&) = delete;
  BlockModule& operator=(const BlockModule&) = delete;
  virtual ~BlockModule() = default;

  struct Output {
    // [T, H], of which a tensor rank may have only its own rows (sequence parallelism); for the head the losses of all
    // rows [T] (fp32), or in prediction the logits [rows, V] in the compute type: equal on every tensor rank.
    at::Tensor activation;
    std::unique_ptr<SavedActivations> saved;  // null without a backward
    LayerRouting routing{};                   // of a layer with experts
  };

  // `x` is the previous block's activation; undefined for the embedding, which reads the batch. The block may keep it.
  virtual Output forward(const at::Tensor& x, const Batch& batch, const PassContext& pass) const = 0;

  // `dy` is the gradient of the activation, which this block may overwrite; undefined for the head, whose loss starts
  // the backward. Adds to the store's gradients; returns the gradient of x, undefined for the embedding.
  virtual at::Tensor backward(at::Tensor dy, const Batch& batch, const PassContext& pass,
                              std::unique_ptr<SavedActivations> saved) const = 0;
};

}  // namespace llmtrain
