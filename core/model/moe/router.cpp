// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/router.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "core/graph/pass_setting.h"

namespace llmtrain {
namespace {

at::Tensor jittered(const at::Tensor& x, const ExpertRouter::Pass& pass) {
  if (!pass.jitter.active()) return x;
  // A copy: the experts see x as it is.
  at::Tensor result = x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat, false, true);
  kernels::jitter_rows_(result, pass.jitter, pass.rows);
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
  const at::Tensor logits = logits_.forward(jittered(x, pass), saved.logits);
  saved.probabilities = at::softmax(logits, 1);
  const kernels::TopExperts top = kernels::top_experts(saved.probabilities, recipe_.top_k);
  saved.experts = top.experts;
  saved.gates = gates_of(top.scores);
  if (recipe_.z_coefficient > 0) saved.log_sums = at::logsumexp(logits, 1);
  const auto capacity = pass.keeps_all ? std::nullopt : expert_limit(recipe_, tokens_.count(x.size(0)));
  kernels::ExpertRows map =
      tokens_.assign(top, recipe_.experts, capacity, recipe_.priority == RouterPriority::score, pass.rows);
  add_sums(map, saved, sums);
  return map;
}

void ExpertRouter::add_sums(const kernels::ExpertRows& map, Saved& saved, RoutingSums& sums) const {
  const std::int64_t experts = recipe_.experts;
  const bool has_z_loss = saved.log_sums.defined();
  const at::Tensor totals = tokens_.sum(
      at::cat({chosen_by(saved.experts.select(1, 0), experts).to(at::kDouble),
               chosen_by(saved.experts, experts).to(at::kDouble), saved.probabilities.sum(0, false, at::kDouble),
               (has_z_loss ? saved.log_sums.square().sum(at::kDouble) : at::zeros({}, at::kDouble)).view(1),
               at::full({1}, static_cast<double>(map.rows()), at::kDouble)}));
  const at::Tensor first = totals.narrow(0, 0, experts), chosen = totals.narrow(0, experts, experts);
  const std::int64_t tokens = tokens_.count(saved.experts.size(0));
  const auto choices = static_cast<double>(tokens * recipe_.top_k);
  sums.passes += 1;
  sums.load += chosen.max().item<double>() / (choices / static_cast<double>(experts));
  sums.dropped_share += 1 - totals[3 * experts + 1].item<double>() / choices;
  // Also without a coefficient: it says how even the routing is.
  const double scale = static_cast<double>(experts) / static_cast<double>(tokens * tokens);
  sums.balance_loss += scale * (first * totals.narrow(0, 2 * experts, experts)).sum().item<double>();
  if (has_z_loss) sums.z_loss += totals[3 * experts].item<double>() / static_cast<double>(tokens);
  if (recipe_.balances()) saved.first = first.to(saved.probabilities.scalar_type());
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
  const auto tokens = static_cast<double>(tokens_.count(x.size(0))), experts = static_cast<double>(recipe_.experts);
  at::Tensor gradient = at::zeros_like(saved.probabilities);
  // A token's experts differ, so nothing is written twice.
  gradient.scatter_(1, saved.experts, score_gradient(dgates, saved));
  // The counts of choices have no gradient.
  if (recipe_.balances())
    gradient.add_(saved.first, pass.share * recipe_.balance_coefficient * experts / (tokens * tokens));
  at::Tensor dlogits = at::_softmax_backward_data(gradient, saved.probabilities, 1, gradient.scalar_type());
  if (recipe_.z_coefficient > 0) {
    // The gradient of the log-sum-exp is the softmax.
    const at::Tensor dlog_sums = saved.log_sums * (2 * pass.share * recipe_.z_coefficient / tokens);
    dlogits.addcmul_(dlog_sums.unsqueeze(1), saved.probabilities);
  }
  at::Tensor dx = logits_.backward(dlogits, jittered(x, pass), saved.logits);
  kernels::jitter_rows_(dx, pass.jitter, pass.rows);
  return dx;
}

}  // namespace llmtrain
