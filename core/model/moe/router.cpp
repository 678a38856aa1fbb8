// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/router.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/special_entr.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <vector>

#include "core/graph/pass_setting.h"
#include "kernels/accumulation_type.h"
#include "kernels/host_copy.h"
#include "kernels/random/random.h"

namespace llmtrain {
namespace {

at::Tensor jittered(const at::Tensor& x, const ExpertRouter::Pass& pass) {
  if (!pass.jitter.active()) return x;
  // A copy: the experts see x as it is.
  at::Tensor result = x.to(kernels::accumulation_type(x), false, true);
  kernels::jitter_rows_(result, pass.jitter, pass.rows);
  return result;
}

// How many of the choices are each of `count` experts, float64: whole numbers, whose sums have no rounding and no
// order.
at::Tensor chosen_by(const at::Tensor& choices, std::int64_t count) {
  const at::Tensor flat = choices.flatten(), ones = at::ones(flat.sizes(), flat.options().dtype(at::kDouble));
  return at::zeros({count}, ones.options()).scatter_add_(0, flat, ones);
}

// How many choices have a row, float64 [1].
at::Tensor kept_choices(const kernels::ExpertRows& map) {
  if (map.ends.defined()) return map.ends.narrow(0, map.experts() - 1, 1).to(at::kDouble);
  return at::full({1}, static_cast<double>(map.rows()), at::kDouble);
}

}  // namespace

at::Tensor ExpertRouter::gates_of(const at::Tensor& scores) const {
  return recipe_.normalize_gates ? scores / scores.sum(1, true) : scores;
}

at::Tensor ExpertRouter::with_noise(const at::Tensor& logits, const Pass& pass) const {
  if (pass.noise.deviation == 0) return logits;
  // Made on the host, whose numbers are those of every device, and copied.
  at::Tensor noisy = at::empty(logits.sizes(), logits.options().device(at::kCPU));
  for (const kernels::RowRun& run : pass.rows.runs(logits.size(0))) {
    at::Tensor piece = noisy.narrow(0, run.row, run.length);
    kernels::fill_normal_(piece, pass.noise.key, pass.noise.deviation,
                          (pass.noise.first_token + run.whole_row) * recipe_.experts);
  }
  return kernels::to_device(noisy, logits.device()).add_(logits);
}

kernels::TopExperts ExpertRouter::choose(const at::Tensor& probabilities, const Pass& pass) const {
  if (!pass.replayed.defined()) return kernels::top_experts(probabilities, recipe_.top_k);
  const at::Tensor experts = kernels::to_device(pass.replayed, probabilities.device());
  return {experts, probabilities.gather(1, experts)};
}

kernels::ExpertRows ExpertRouter::forward(const at::Tensor& x, const Pass& pass, Saved& saved,
                                          LayerRouting& routing) const {
  const at::Tensor plain = logits_.forward(jittered(x, pass), saved.logits), logits = with_noise(plain, pass);
  saved.probabilities = at::softmax(logits, 1);
  const kernels::TopExperts top = choose(saved.probabilities, pass);
  saved.experts = top.experts;
  saved.gates = gates_of(top.scores);
  if (losses_.z > 0) saved.log_sums = at::logsumexp(logits, 1);
  if (uses_load_importance(recipe_)) {
    const at::Tensor last = top.experts.narrow(1, recipe_.top_k - 1, 1);
    saved.variation = {plain, logits.gather(1, last), recipe_.gate_noise / static_cast<double>(recipe_.experts)};
  }
  const auto capacity = pass.keeps_all ? std::nullopt : expert_limit(recipe_, tokens_.count(x.size(0)));
  kernels::ExpertRows map =
      tokens_.assign(top, recipe_.experts, capacity, recipe_.priority == RouterPriority::score, pass.rows);
  describe(map, saved, routing);
  return map;
}

// routing_totals() numbers, summed over the tokens of the micro-batch.
at::Tensor ExpertRouter::totals_of(const kernels::ExpertRows& map, const Saved& saved) const {
  const std::int64_t experts = recipe_.experts;
  const auto options = saved.probabilities.options().dtype(at::kDouble);
  const at::Tensor z = saved.log_sums.defined() ? saved.log_sums.square().sum(at::kDouble) : at::zeros({}, options);
  std::vector<at::Tensor> numbers{chosen_by(saved.experts.select(1, 0), experts),
                                  chosen_by(saved.experts, experts),
                                  saved.probabilities.sum(0, false, at::kDouble),
                                  z.view(1),
                                  kept_choices(map),
                                  at::special_entr(saved.probabilities).sum(at::kDouble).view(1)};
  if (saved.variation) numbers.push_back(saved.variation->sums());
  return tokens_.sum(at::cat(numbers));
}

// The balance loss, float64 without axes; keeps what its gradient needs.
at::Tensor ExpertRouter::balance_loss(const at::Tensor& totals, Saved& saved) const {
  const std::int64_t experts = recipe_.experts, tokens = tokens_.count(saved.experts.size(0));
  if (saved.variation) {
    saved.variation_sums = totals.narrow(0, 3 * experts + 3, 2 * experts);
    return LoadImportance::loss(saved.variation_sums);
  }
  // Also without a coefficient: it says how even the routing is.
  const at::Tensor first = totals.narrow(0, 0, experts);
  if (losses_.balance > 0) saved.first = first.to(saved.probabilities.scalar_type());
  const double scale = static_cast<double>(experts) / static_cast<double>(tokens * tokens);
  return (first * totals.narrow(0, 2 * experts, experts)).sum().mul_(scale);
}

void ExpertRouter::describe(const kernels::ExpertRows& map, Saved& saved, LayerRouting& routing) const {
  const std::int64_t experts = recipe_.experts, tokens = tokens_.count(saved.experts.size(0));
  const at::Tensor totals = totals_of(map, saved);
  const auto choices = static_cast<double>(tokens * recipe_.top_k);
  const at::Tensor kept = totals[3 * experts + 1], entropies = totals[3 * experts + 2];
  routing.chosen = totals.narrow(0, experts, experts);
  // In the order of RoutingSums. One expert leaves nothing to decide.
  routing.sums = at::stack(
      {at::ones({}, totals.options()), balance_loss(totals, saved), totals[3 * experts] / static_cast<double>(tokens),
       1 - kept / choices, routing.chosen.max() / (choices / static_cast<double>(experts)),
       experts > 1 ? entropies / (static_cast<double>(tokens) * std::log(static_cast<double>(experts)))
                   : at::zeros({}, totals.options())});
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
  if (saved.first.defined()) gradient.add_(saved.first, pass.share * losses_.balance * experts / (tokens * tokens));
  at::Tensor dlogits = at::_softmax_backward_data(gradient, saved.probabilities, 1, gradient.scalar_type());
  if (losses_.z > 0) {
    // The gradient of the log-sum-exp is the softmax.
    const at::Tensor dlog_sums = saved.log_sums * (2 * pass.share * losses_.z / tokens);
    dlogits.addcmul_(dlog_sums.unsqueeze(1), saved.probabilities);
  }
  if (saved.variation)
    dlogits.add_(saved.variation->gradient(saved.variation_sums, saved.experts.narrow(1, recipe_.top_k - 1, 1)),
                 pass.share * losses_.balance);
  at::Tensor dx = logits_.backward(dlogits, jittered(x, pass), saved.logits);
  kernels::jitter_rows_(dx, pass.jitter, pass.rows);
  return dx;
}

}  // namespace llmtrain
