// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/router.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>

#include <optional>

#include "core/graph/pass_setting.h"
#include "kernels/host_copy.h"
#include "kernels/random/random.h"

namespace llmtrain {
namespace {

at::Tensor jittered(const at::Tensor& x, const ExpertRouter::Pass& pass) {
  if (!pass.jitter.active()) return x;
  // A copy: the experts see x as it is.
  return kernels::jittered_rows(x.contiguous(), pass.jitter, pass.rows);
}

}  // namespace

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

kernels::ExpertRows ExpertRouter::forward(const at::Tensor& x, const Pass& pass, Saved& saved,
                                          LayerRouting& routing) const {
  const at::Tensor plain = logits_.forward(jittered(x, pass), saved.logits), logits = with_noise(plain, pass);
  at::Tensor given;
  if (pass.replayed.defined()) given = kernels::to_device(pass.replayed, logits.device());
  // A token's choices are told together or not at all.
  if (pass.leaves_choices)
    given = at::where(given.lt(0), kernels::route_tokens(logits, rules(), {}).tokens.experts, given);
  const kernels::Routing routed = kernels::route_tokens(logits, rules(), given);
  saved.tokens = routed.tokens;
  const at::Tensor& experts = saved.tokens.experts;
  std::optional<kernels::LoadImportanceTokens> variation;
  if (uses_load_importance(recipe_)) {
    variation =
        kernels::load_importance(plain, logits, experts, recipe_.gate_noise / static_cast<double>(recipe_.experts));
    saved.variation = variation->kept;
  }
  const auto capacity = pass.keeps_all ? std::nullopt : expert_limit(recipe_, tokens_.count(x.size(0)));
  kernels::ExpertRows map = tokens_.assign({experts, routed.scores}, recipe_.experts, capacity,
                                           recipe_.priority == RouterPriority::score, pass.rows);
  describe(routed, variation, map, saved, routing);
  return map;
}

void ExpertRouter::describe(const kernels::Routing& routed,
                            const std::optional<kernels::LoadImportanceTokens>& variation,
                            const kernels::ExpertRows& map, Saved& saved, LayerRouting& routing) const {
  const std::int64_t experts = recipe_.experts, tokens = tokens_.count(routed.tokens.experts.size(0));
  at::Tensor totals = kernels::routing_totals(routed, map);
  const std::int64_t numbers = totals.numel();
  if (variation) totals = kernels::with_load_importance(totals, *variation);
  totals = tokens_.sum(totals);
  routing.chosen = totals.narrow(0, experts, experts);
  // In the order of RoutingSums. The balance loss also without a coefficient: it says how even the routing is.
  std::optional<at::ScalarType> first;
  if (!variation && losses_.balance > 0) first = routed.tokens.probabilities.scalar_type();
  const kernels::RoutingSummary summary = kernels::routing_summary(totals, experts, tokens, recipe_.top_k, first);
  saved.first = summary.first;
  routing.sums = summary.sums;
  if (!variation) return;
  saved.variation_slopes =
      kernels::load_importance_loss(totals.narrow(0, numbers, 2 * experts), variation->kept, routing.sums[1]);
}

at::Tensor ExpertRouter::backward(const at::Tensor& dgates, const at::Tensor& x, const Pass& pass,
                                  const Saved& saved) const {
  const auto tokens = static_cast<double>(tokens_.count(x.size(0))), experts = static_cast<double>(recipe_.experts);
  at::Tensor dlogits =
      kernels::route_backward(dgates, saved.tokens, rules(),
                              {.first = saved.first,
                               .first_scale = pass.share * losses_.balance * experts / (tokens * tokens),
                               .log_sum_scale = 2 * pass.share * losses_.z / tokens});
  if (saved.variation) {
    kernels::add_load_importance_gradient_(dlogits, *saved.variation, saved.variation_slopes, saved.tokens.experts,
                                           pass.share * losses_.balance);
  }
  at::Tensor dx = logits_.backward(dlogits, jittered(x, pass), saved.logits);
  kernels::jitter_rows_(dx, pass.jitter, pass.rows);
  return dx;
}

}  // namespace llmtrain
