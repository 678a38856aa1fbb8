// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "core/model/moe/layer_routing.h"
#include "core/model/moe/micro_batch_tokens.h"
#include "core/model/moe/router_logits.h"
#include "core/recipe/recipe.h"
#include "kernels/moe/expert_rows.h"
#include "kernels/moe/jitter.h"
#include "kernels/moe/load_importance.h"
#include "kernels/moe/routing.h"

namespace llmtrain {

// Sends each token to its top_k experts by a router's logits, in their type. A token's gates are the softmax over all
// experts (Shazeer et al., arXiv 1701.06538) of the chosen ones, divided by their sum where the recipe normalizes them.
// In training the logits may get normal noise, of which the backward needs nothing.
//
// Two losses are added to the gradients, each a mean over the tokens of a micro-batch and, as the loss is, over the
// micro-batches of the global batch; layers add up.
// balance: kernels/moe/load_importance.h, or E · Σ_e f_e · P_e, with f_e the share of tokens whose first choice is e
// and P_e the mean probability of e (GShard: Lepikhin et al., arXiv 2006.16668, section 2.2, scaled as in Fedus et al.,
// arXiv 2101.03961, equation 4). z: the mean of (log Σ_e exp logit_e)² (Zoph et al., arXiv 2202.08906, equation 5).
class ExpertRouter {
 public:
  // What the backward needs, T tokens.
  struct Saved {
    RouterLogits::Saved logits;
    kernels::RoutedTokens tokens;
    // What GShard's loss needs, [E]: the micro-batch's tokens whose first choice is each expert; undefined unless
    // needed.
    at::Tensor first;
    // What the load-importance loss needs, and its slopes along the sums over the micro-batch; unless needed none and
    // undefined.
    std::optional<kernels::LoadImportance> variation;
    at::Tensor variation_slopes;

    void visit(const KeptTensorVisitor& visit) {
      logits.visit(visit);
      visit_all(visit, {&tokens.probabilities, &tokens.experts, &tokens.gates, &tokens.log_sums, &first});
      if (variation) visit_all(visit, {&variation->logits, &variation->thresholds});
      visit(variation_slopes);
    }
  };

  // Noise is added to each logit, as a function of its token's index in the global batch.
  struct Noise {
    std::uint64_t key = 0;
    double deviation = 0;          // 0: none
    std::int64_t first_token = 0;  // of the micro-batch
  };

  // Coefficients of the terms that it raises; 0: it does not.
  struct Losses {
    double balance = 0, z = 0;
  };

  // Capacity and losses count over all of `tokens`.
  ExpertRouter(const RouterLogits& logits, const MixtureOfExpertsRecipe& recipe, const Losses& losses,
               const MicroBatchTokens& tokens)
      : logits_(logits), recipe_(recipe), losses_(losses), tokens_(tokens) {}

  // A micro-batch as the router needs to know it.
  struct Pass {
    kernels::Jitter jitter;    // of x; none in evaluation
    kernels::RowsAtHand rows;  // which of the micro-batch's tokens the rows of x are
    // Which part of the global batch the micro-batch is, times fp16's loss scale: scales the losses in the backward.
    double share = 0;
    Noise noise{};
    // int64 [T, k]: the experts of the tokens, whatever the router says; undefined: it decides.
    at::Tensor replayed{};
    bool leaves_choices = false;  // whether it also decides where these are −1
    bool keeps_all = false;       // whether no token is dropped, whatever capacity the recipe gives
  };

  // The rows of x [T, H] by expert, within the capacity that the recipe gives for the micro-batch's tokens. `routing`
  // becomes what the routing of the micro-batch was like: the same on all ranks that hold its tokens. On a GPU nobody
  // waits.
  kernels::ExpertRows forward(const at::Tensor& x, const Pass& pass, Saved& saved, LayerRouting& routing) const;
  // Adds the gradients of the router's parameters; returns that of x in the router's type. `dgates` [T, k].
  at::Tensor backward(const at::Tensor& dgates, const at::Tensor& x, const Pass& pass, const Saved& saved) const;

 private:
  kernels::RoutingRules rules() const { return {recipe_.top_k, recipe_.normalize_gates, losses_.z > 0}; }
  at::Tensor with_noise(const at::Tensor& logits, const Pass& pass) const;
  void describe(const kernels::Routing& routed, const std::optional<kernels::LoadImportanceTokens>& variation,
                const kernels::ExpertRows& map, Saved& saved, LayerRouting& routing) const;

  RouterLogits logits_;
  MixtureOfExpertsRecipe recipe_;
  Losses losses_;
  MicroBatchTokens tokens_;
};

}  // namespace llmtrain
