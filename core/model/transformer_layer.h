// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "core/model/block_module.h"
#include "core/model/kept_exchanges.h"
#include "core/model/layers/block_parameters.h"
#include "core/model/moe/mixture_of_experts.h"
#include "core/model/moe/shared_gate.h"
#include "core/model/self_attention.h"
#include "core/recipe/recipe.h"
#include "kernels/activation.h"

namespace llmtrain {

// A feed-forward network for all tokens: up (and gate), activation, down. That of a dense layer, or the shared experts,
// as one network as wide as all of them.
class FeedForward {
 public:
  struct Saved {
    // F: this rank's features; T: all rows.
    LinearInput input;      // of the up projection; its values are released where the backward makes them again
    at::Tensor hidden;      // [T, F], or [T, 2F] gate and up for swiglu: the activation's input
    LinearInput activated;  // [T, F]; likewise
  };

  // `name`: of its parameters within the block, "ffn".
  FeedForward(const BlockParameters& parameters, Activation activation, const std::string& name, Recompute recompute);

  // This rank's rows: [R, H] → [R, H].
  at::Tensor forward(at::Tensor x, const PassContext& pass, Saved& saved) const;
  // Returns the gradient of the forward's input. Leaves `saved` empty.
  at::Tensor backward(const at::Tensor& dy, const PassContext& pass, Saved& saved) const;

 private:
  kernels::ActivationKind activation_;
  bool keeps_activated_;
  ColumnLinear up_;
  RowLinear down_;
};

// What follows a layer's second norm: a dense network, or the routed experts, to which the shared ones are added.
class FeedForwardHalf {
 public:
  struct Saved {
    at::Tensor input;  // of the experts
    FeedForward::Saved network;
    MixtureOfExperts::Saved experts;
    SharedGate::Saved shared_gate;
  };

  FeedForwardHalf(const BlockParameters& parameters, const LayerSettings& layer, Recompute recompute,
                  const MixtureRanks& ranks);

  // As those of FeedForward; `routing` is added to, where there are experts.
  at::Tensor forward(at::Tensor x, const Sequences& rows, const PassContext& pass, Saved& saved,
                     LayerRouting& routing) const;
  at::Tensor backward(const at::Tensor& dy, const Sequences& rows, const PassContext& pass, Saved& saved) const;

  // Between the passes the input may go, if the backward is given it again.
  static void release_input(Saved& saved);
  void restore_input(Saved& saved, const at::Tensor& x) const;

 private:
  // Of a router that sees these rows of the micro-batch.
  ExpertRouter::Pass router_pass(const at::Tensor& share, const Sequences& rows, const PassContext& pass) const;

  // The experts of these rows in the routing that the model replays: int64 [tokens, top_k].
  at::Tensor replayed_experts(std::int64_t tokens, const kernels::RowsAtHand& at_hand, const Sequences& rows,
                              const PassContext& pass) const;

  TensorSplit split_;
  std::int64_t layer_;
  std::uint64_t jitter_site_, noise_site_;
  std::shared_ptr<const ReplayedRouting> replay_;
  MixtureOfExpertsRecipe moe_;  // where there are experts
  std::optional<MixtureOfExperts> experts_;
  std::optional<FeedForward> network_;
  std::optional<SharedGate> shared_gate_;
};

// A pre-norm transformer layer: x + attention(norm(x)), then the same with the feed-forward network. Recompute "full"
// keeps only x and runs the forward again, "computation" without asking other ranks again; "selective" keeps the
// results of matrix products and recomputes norms, activations and attention probabilities.
class TransformerLayer final : public BlockModule {
 public:
  // `kept` is where all given ranks are from, with "computation"; it outlives the layer.
  TransformerLayer(const BlockParameters& parameters, const LayerSettings& settings, AttentionKernel kernel,
                   Recompute recompute, const kernels::RopeTable* rope, const ContextRanks* context = nullptr,
                   const MixtureRanks& experts = {}, KeptExchanges* kept = nullptr);

  Output forward(const at::Tensor& x, const Batch& batch, const PassContext& pass) const override;
  at::Tensor backward(at::Tensor dy, const Batch& batch, const PassContext& pass,
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
