// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "core/model/block_module.h"
#include "core/model/feed_forward_half.h"
#include "core/model/kept_exchanges.h"
#include "core/model/layers/block_parameters.h"
#include "core/model/self_attention.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// A pre-norm transformer layer: x + attention(norm(x)), then the same with the feed-forward network. Recompute "full"
// keeps only x and runs the forward again, "computation" without asking other ranks again; "selective" keeps the
// results of matrix products and recomputes norms, activations and attention probabilities.
class TransformerLayer final : public BlockModule {
 public:
  // `kept` is where all given ranks are from, with "computation"; it outlives the layer.
  TransformerLayer(const BlockParameters& parameters, const LayerSettings& settings, AttentionKernel kernel,
                   Recompute recompute, const kernels::RopeTable* rope, const ContextRanks* context = nullptr,
                   const MixtureRanks& experts = {}, KeptExchanges* kept = nullptr);

  Output forward(Tensors inputs, const Batch& batch, const PassContext& pass) const override;
  Tensors backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                   std::unique_ptr<SavedActivations> saved) const override;

 private:
  struct Saved;
  at::Tensor run_and_keep(const at::Tensor& x, const Sequences& rows, const PassContext& pass, Saved& saved,
                          LayerRouting& routing) const;
  void run_again(const Sequences& rows, const PassContext& pass, Saved& saved) const;
  at::Tensor run(const at::Tensor& x, const Sequences& rows, const PassContext& pass, Saved& saved,
                 LayerRouting& routing) const;
  // Applies the residual branch's dropout in place; `site` distinguishes attention from feed-forward.
  void drop(at::Tensor& branch, const Sequences& rows, const PassContext& pass, std::uint64_t site) const;
  at::Tensor branch_gradient(const at::Tensor& dy, const Sequences& rows, const PassContext& pass,
                             std::uint64_t site) const;

  TensorSplit split_;
  double dropout_;
  Recompute recompute_;
  KeptExchanges* kept_;
  std::uint64_t attention_site_, ffn_site_;
  NormLayer attention_norm_, ffn_norm_;
  SelfAttention attention_;
  FeedForwardHalf feed_forward_;
};

}  // namespace llmtrain
