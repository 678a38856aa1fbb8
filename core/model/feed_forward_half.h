// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "core/model/block_module.h"
#include "core/model/feed_forward.h"
#include "core/model/layers/block_parameters.h"
#include "core/model/moe/mixture_of_experts.h"
#include "core/model/moe/shared_gate.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// What follows a layer's second norm: a dense network, or the routed experts, to which the shared ones are added.
class FeedForwardHalf {
 public:
  struct Saved {
    at::Tensor input;  // of the experts
    FeedForward::Saved network;
    MixtureOfExperts::Saved experts;
    SharedGate::Saved shared_gate;

    void visit(const KeptTensorVisitor& visit) {
      visit(input);
      network.visit(visit);
      experts.visit(visit);
      shared_gate.visit(visit);
    }
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
  // What the router is given where it sees these rows of the micro-batch.
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

}  // namespace llmtrain
