// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/router.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>

#include <optional>

#include "core/graph/pass_setting.h"

namespace llmtrain {
namespace {

at::Tensor jittered(const at::Tensor& x, const kernels::Jitter& jitter) {
  if (!jitter.active()) return x;
  // A copy: the experts see x as it is.
  at::Tensor result = x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat, false, true);
  kernels::jitter_(result, jitter);
  return result;
}

// How many of the choices are each of `count` experts.
at::Tensor chosen_by(const at::Tensor& choices, std::int64_t count) {
  return at::bincount(choices.flatten(), {}, count);
}

}  // namespace

at::Tensor ExpertRouter::gates_of(const at::Tensor& scores) const {
  return recipe_.normalize_gates ? scores / scores.sum(1, true) : scores;
}

kernels::ExpertRows ExpertRouter::forward(const at::Tensor& x, const Pass& pass, Saved& saved,
                                          RoutingSums& sums) const {
  const at::Tensor logits = logits_.forward(jittered(x, pass.jitter), saved.logits);
  saved.probabilities = at::softmax(logits, 1);
  const kernels::TopExperts top = kernels::top_experts(saved.probabilities, recipe_.top_k);
  saved.experts = top.experts;
  saved.gates = gates_of(top.scores);
  const std::int64_t tokens = x.size(0);
  std::optional<at::Tensor> priority;
  if (recipe_.priority == RouterPriority::score) priority = top.scores.select(1, 0);
  kernels::ExpertRows map = kernels::assign_rows(top.experts, recipe_.experts, expert_limit(recipe_, tokens), priority);

  const auto mean_of_experts = static_cast<double>(map.choices()) / static_cast<double>(recipe_.experts);
  sums.passes += 1;
  sums.load += chosen_by(top.experts, recipe_.experts).max().item<double>() / mean_of_experts;
  sums.dropped_share += 1 - static_cast<double>(map.rows()) / static_cast<double>(map.choices());
  // Also without a coefficient: it says how even the routing is.
  const at::Tensor first = chosen_by(top.experts.select(1, 0), recipe_.experts).to(at::kDouble);
  const double scale = static_cast<double>(recipe_.experts) / static_cast<double>(tokens * tokens);
  sums.balance_loss += scale * (first * saved.probabilities.sum(0, false, at::kDouble)).sum().item<double>();
  if (recipe_.z_coefficient > 0) {
    saved.log_sums = at::logsumexp(logits, 1);
    sums.z_loss += saved.log_sums.square().mean(at::kDouble).item<double>();
  }
  return map;
}

// The gradient of the chosen experts' probabilities.
at::Tensor ExpertRouter::score_gradient(const at::Tensor& dgates, const Saved& saved) const {
  if (!recipe_.normalize_gates) return dgates;
  // g_j = s_j / Σ s, so ds_j = (dg_j − Σ_i dg_i g_i) / Σ s.
  const at::Tensor sum = saved.probabilities.gather(1, saved.experts).sum(1, true);
  return (dgates - (dgates * saved.gates).sum(1, true)) / sum;
}

at::Tensor ExpertRouter::backward(const at::Tensor& dgates, const at::Tensor& x, const Pass& pass,
                                  const Saved& saved) const {
  const auto tokens = static_cast<double>(x.size(0)), experts = static_cast<double>(recipe_.experts);
  at::Tensor gradient = at::zeros_like(saved.probabilities);
  // A token's experts differ, so nothing is written twice.
  gradient.scatter_(1, saved.experts, score_gradient(dgates, saved));
  if (recipe_.balances()) {
    // The counts of choices have no gradient.
    const at::Tensor first = chosen_by(saved.experts.select(1, 0), recipe_.experts).to(gradient.scalar_type());
    gradient.add_(first, pass.share * recipe_.balance_coefficient * experts / (tokens * tokens));
  }
  at::Tensor dlogits = at::_softmax_backward_data(gradient, saved.probabilities, 1, gradient.scalar_type());
  if (recipe_.z_coefficient > 0) {
    // The gradient of the log-sum-exp is the softmax.
    const at::Tensor dlog_sums = saved.log_sums * (2 * pass.share * recipe_.z_coefficient / tokens);
    dlogits.addcmul_(dlog_sums.unsqueeze(1), saved.probabilities);
  }
  at::Tensor dx = logits_.backward(dlogits, jittered(x, pass.jitter), saved.logits);
  kernels::jitter_(dx, pass.jitter);
  return dx;
}

}  // namespace llmtrain
