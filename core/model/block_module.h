// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "core/model/moe/layer_routing.h"
#include "core/model/pass/kept_tensors.h"
#include "core/model/pass/pass_context.h"

namespace llmtrain {

// A block's inputs or outputs, or their gradients. Most blocks have one of each, which takes no memory of its own.
using Tensors = c10::SmallVector<at::Tensor, 2>;

// The tensors of one micro-batch that a block keeps between its forward and its backward.
struct SavedActivations {
  SavedActivations() = default;
  SavedActivations(const SavedActivations&) = delete;
  SavedActivations& operator=(const SavedActivations&) = delete;
  virtual ~SavedActivations() = default;

  // All of them, but for row numbers that others share.
  virtual void visit(const KeptTensorVisitor& visit) = 0;
};

// The losses of all rows [T] of tokens, or of samples, in one of Graph::losses, fp32 at least, 0 where a row does not
// count: equal on every tensor rank.
struct LossRows {
  std::size_t term = 0;
  at::Tensor rows;
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
    // Block::outputs, each [T, …], of which a tensor rank may have only its own rows (sequence parallelism).
    Tensors values;
    std::unique_ptr<SavedActivations> saved;  // null without a backward
    LayerRouting routing{};                   // of a layer with experts
    std::vector<LossRows> losses{};           // of the terms of rows that it raises; none in prediction
    // The rows [rows, V] that a head makes in prediction, and one of classes in evaluation, in the compute type and
    // equal on every tensor rank; else undefined. With PassContext::returns_hidden_rows [rows, hidden_size].
    at::Tensor logits{};
  };

  // `inputs`: of Block::inputs. The block may keep them, and changes none, as others may read them, too.
  virtual Output forward(Tensors inputs, const Batch& batch, const PassContext& pass) const = 0;

  // `gradients`: of the outputs, which this block may overwrite; none for the head, whose loss starts the backward.
  // Adds to the store's gradients; returns those of the inputs, each in memory of its own, to which others are added.
  virtual Tensors backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                           std::unique_ptr<SavedActivations> saved) const = 0;
};

}  // namespace llmtrain
