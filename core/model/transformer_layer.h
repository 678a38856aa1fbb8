// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/model/block_module.h"
#include "core/model/feed_forward.h"
#include "core/model/self_attention.h"

namespace llmtrain {

// A pre-norm transformer layer: x + attention(norm(x)), then the same with the feed-forward network. Recompute "full"
// keeps only x and runs the forward again; "selective" keeps the results of matrix products and recomputes norms,
// activations and attention probabilities.
class TransformerLayer final : public BlockModule {
 public:
  TransformerLayer(const BlockParameters& parameters, AttentionKernel kernel, Recompute recompute,
                   const kernels::RopeTable* rope, const ContextRanks* context = nullptr);

  Output forward(const at::Tensor& x, const MicroBatch& micro, ForwardMode pass) const override;
  at::Tensor backward(at::Tensor dy, const MicroBatch& micro, std::unique_ptr<SavedActivations> saved) const override;

 private:
  struct Saved;
  at::Tensor run(const at::Tensor& x, const MicroBatch& micro, ForwardMode pass, Saved& saved) const;
  // Applies the residual branch's dropout in place; `site` distinguishes attention from feed-forward.
  void drop(at::Tensor& branch, const MicroBatch& micro, ForwardMode pass, std::uint64_t site) const;
  at::Tensor branch_gradient(const at::Tensor& dy, const MicroBatch& micro, std::uint64_t site) const;

  TensorSplit split_;
  double dropout_;
  Recompute recompute_;
  std::uint64_t attention_site_, ffn_site_;
  NormLayer attention_norm_, ffn_norm_;
  SelfAttention attention_;
  FeedForward feed_forward_;
};

}  // namespace llmtrain
