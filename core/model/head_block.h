// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "core/model/block_module.h"
#include "core/model/layers/block_parameters.h"
#include "kernels/cross_entropy.h"

namespace llmtrain {

// Final norm, output projection and cross-entropy. The loss ends the model, so its gradient is known in the forward:
// chunk by chunk, rows become logits, losses, the logits' gradient (in the same memory), and immediately the gradients
// of the weight and of the normed input. The logits of the whole batch never exist (as in Liger Kernel's fused linear
// cross-entropy, Hsu et al., arXiv 2410.10989). A tensor rank computes the logits of its slice of the vocabulary, for
// all rows; the ranks exchange three numbers per row.
class HeadBlock final : public BlockModule {
 public:
  HeadBlock(const BlockParameters& parameters, const HeadSettings& settings);

  Output forward(Tensors inputs, const Batch& batch, const PassContext& pass) const override;
  Tensors backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                   std::unique_ptr<SavedActivations> saved) const override;

 private:
  struct Saved;
  // Logits of the rows that are asked for, on every tensor rank: [rows, V] in the compute type.
  at::Tensor logits(at::Tensor normed, const Batch& batch) const;
  // The loss of each row, 0 where it does not count. For training it also adds to the weight's gradient and sets
  // `dnormed`, which is null in evaluation.
  at::Tensor losses(const at::Tensor& normed, const Batch& batch, const PassContext& pass, at::Tensor* dnormed) const;
  // The same where all rows count.
  at::Tensor losses_of(const at::Tensor& normed, const at::Tensor& targets, double loss_gradient,
                       at::Tensor* dnormed) const;
  // For one chunk: this rank's logits, the losses (with a scale the logits' gradient replaces them), and the gradients
  // that follow from it.
  at::Tensor project(const at::Tensor& chunk) const;
  at::Tensor row_losses(at::Tensor& logits, const at::Tensor& targets, std::optional<double> gradient_scale) const;
  void add_weight_gradient(const at::Tensor& dlogits, const at::Tensor& chunk) const;
  at::Tensor input_gradient(const at::Tensor& dlogits) const;

  std::size_t term_;       // that it raises
  BoundParameter weight_;  // the head's own, or the token embedding, possibly of another stage
  TensorSplit split_;
  kernels::VocabularySlice slice_;
  std::int64_t columns_;  // of the slice, without padding
  NormLayer norm_;
};

}  // namespace llmtrain
