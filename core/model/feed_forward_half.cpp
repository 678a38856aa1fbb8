// SPDX-License-Identifier: Apache-2.0
#include "core/model/feed_forward_half.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <string>
#include <utility>

#include "core/graph/replayed_routing.h"
#include "core/model/moe/pass_routing.h"
#include "core/model/moe/token_choices.h"

namespace llmtrain {
namespace {

GroupedLinear grouped_linear(const BlockParameters& parameters, const std::string& name,
                             const std::optional<RowScaling>& scaling, const RowRanks* summed = nullptr) {
  return {parameters.bind(name + ".weight"), parameters.bind_if_there(name + ".bias"), summed, scaling};
}

MixtureOfExperts routed_experts(const BlockParameters& parameters, const FeedForwardSettings& settings,
                                Recompute recompute, const MixtureRanks& ranks) {
  std::optional<RowScaling> scaling;
  if (parameters.multiplies_fp8()) scaling.emplace(ranks.features);
  std::optional<GroupedLinear> gate;
  if (is_gated(settings.activation)) gate = grouped_linear(parameters, "ffn.experts.gate", scaling);
  std::optional<RouterLogits::CosineParameters> cosine;
  if (settings.experts->router == Router::cosine)
    cosine = {parameters.bind("ffn.router_projection.weight"), parameters.bind("ffn.router.temperature")};
  const RouterLogits logits(parameters.bind("ffn.router.weight"), cosine);
  const GroupedLinear down = grouped_linear(parameters, "ffn.experts.down", scaling, ranks.features);
  const ExpertRouter::Losses losses{parameters.loss_coefficient(loss_names::balance),
                                    parameters.loss_coefficient(loss_names::z)};
  return {ExpertRouter(logits, *settings.experts, losses, MicroBatchTokens(ranks.tokens)),
          Experts(gate, grouped_linear(parameters, "ffn.experts.up", scaling), down,
                  activation_kind(settings.activation), recompute, scaling),
          ranks};
}

// The index in the global batch of the micro-batch's first token.
std::int64_t first_token(const Sequences& rows, const PassContext& pass) {
  return pass.first_sample * rows.whole_length();
}

}  // namespace

FeedForwardHalf::FeedForwardHalf(const BlockParameters& parameters, const LayerSettings& layer, Recompute recompute,
                                 const MixtureRanks& ranks)
    : split_(parameters.split()),
      layer_(layer.index),
      jitter_site_(parameters.random_site("ffn.router")),
      noise_site_(parameters.random_site("ffn.router.noise")),
      replay_(parameters.routing()) {
  const FeedForwardSettings& settings = layer.feed_forward;
  if (!settings.experts) {
    network_.emplace(parameters, settings.activation, "ffn", recompute);
    return;
  }
  moe_ = *settings.experts;
  experts_ = routed_experts(parameters, settings, recompute, ranks);
  if (moe_.shared_experts > 0) network_.emplace(parameters, settings.activation, "ffn.shared", recompute);
  if (moe_.shared_gate) shared_gate_.emplace(parameters.bind("ffn.shared_gate.weight"));
}

ExpertRouter::Pass FeedForwardHalf::router_pass(const at::Tensor& share, const Sequences& rows,
                                                const PassContext& pass) const {
  const kernels::RowsAtHand at_hand{rows.part, rows.length, split_.position() * share.size(0)};
  ExpertRouter::Pass result{.jitter = {}, .rows = at_hand, .share = pass.batch_share(rows.whole_rows())};
  // With a cache the rows are what happens to be computed together; what one gets must not depend on the others.
  result.keeps_all = pass.keeps_all_tokens || pass.cache != nullptr;
  if (!pass.trains()) return result;
  const std::int64_t first = first_token(rows, pass);
  const auto key = [&](std::uint64_t site) { return kernels::dropout_key(pass.seed, pass.step, site); };
  result.jitter = {moe_.jitter, key(jitter_site_), first * share.size(1)};
  result.noise = {key(noise_site_), moe_.gate_noise / static_cast<double>(moe_.experts), first};
  return result;
}

at::Tensor FeedForwardHalf::replayed_experts(std::int64_t tokens, const kernels::RowsAtHand& at_hand,
                                             const Sequences& rows, const PassContext& pass) const {
  const auto top_k = static_cast<std::size_t>(moe_.top_k);
  const std::int64_t first = first_token(rows, pass);
  const SpreadChoices choices(replay_->shares(layer_, pass.step), std::llround(pass.batch_rows), moe_.top_k);
  at::Tensor experts = at::empty({tokens, moe_.top_k}, at::kLong);
  auto* row = experts.mutable_data_ptr<std::int64_t>();
  for (const kernels::RowRun& run : at_hand.runs(tokens))
    for (std::int64_t i = 0; i < run.length; ++i)
      choices.choose(first + run.whole_row + i, {row + (run.row + i) * moe_.top_k, top_k});
  return experts;
}

// Each token is routed by one of the tensor ranks, also where all have it.
at::Tensor FeedForwardHalf::forward(at::Tensor x, const Sequences& rows, const PassContext& pass, Saved& saved,
                                    LayerRouting& routing) const {
  if (!experts_) return network_->forward(std::move(x), rows, pass, saved.network);
  saved.input = x;
  const at::Tensor share = split_.row_share(x);
  ExpertRouter::Pass of_router = router_pass(share, rows, pass);
  if (replay_ != nullptr && pass.trains())
    of_router.replayed = replayed_experts(share.size(0), of_router.rows, rows, pass);
  if (pass.routing != nullptr && pass.routing->replays()) {
    of_router.replayed = pass.routing->of(layer_, of_router.rows, share.size(0));
    of_router.leaves_choices = pass.routing->leaves_choices();
  }
  at::Tensor y = split_.from_row_shares(experts_->forward(share, of_router, saved.experts, routing));
  if (pass.routing != nullptr && !pass.routing->replays())
    pass.routing->record(layer_, saved.experts.router.tokens.experts, of_router.rows, rows.whole_rows());
  if (pass.recorders.token_choices != nullptr && pass.trains()) {
    const kernels::RoutedTokens& tokens = saved.experts.router.tokens;
    pass.recorders.token_choices->record(layer_, {tokens.probabilities, tokens.experts, saved.experts.map.row_of},
                                         of_router.rows, first_token(rows, pass));
  }
  if (!network_) return y;
  const at::Tensor shared = network_->forward(x, rows, pass, saved.network);
  if (!shared_gate_) return y.add_(shared);
  shared_gate_->add(y, x, shared, saved.shared_gate);
  return y;
}

at::Tensor FeedForwardHalf::backward(const at::Tensor& dy, const Sequences& rows, const PassContext& pass,
                                     Saved& saved) const {
  if (!experts_) return network_->backward(dy, rows, pass, saved.network);
  const at::Tensor x = std::move(saved.input), share = split_.row_share(x);
  at::Tensor dx = split_.from_row_shares(
      experts_->backward(split_.row_share(dy), share, router_pass(share, rows, pass), saved.experts));
  if (!network_) return dx;
  const at::Tensor dshared = shared_gate_ ? shared_gate_->backward(dy, x, dx, saved.shared_gate) : dy;
  return dx.add_(network_->backward(dshared, rows, pass, saved.network));
}

void FeedForwardHalf::release_input(Saved& saved) {
  saved.input.reset();
  saved.network.input.release();
}

void FeedForwardHalf::restore_input(Saved& saved, const at::Tensor& x) const {
  if (experts_) saved.input = x;
  if (network_) LinearLayer::restore(saved.network.input, x);
}

}  // namespace llmtrain
