// SPDX-License-Identifier: Apache-2.0
#include "core/model/transformer_layer.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "core/base/hash.h"
#include "core/graph/replayed_routing.h"
#include "core/model/moe/token_choices.h"

namespace llmtrain {
namespace {

using kernels::ActivationKind;

ActivationKind activation_kind(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return ActivationKind::gelu;
    case Activation::gelu_tanh:
      return ActivationKind::gelu_tanh;
    case Activation::swiglu:
      break;
  }
  return ActivationKind::swiglu;
}

// For swiglu one product makes gate and up.
ColumnLinear up_projection(const BlockParameters& parameters, Activation activation, const std::string& network) {
  const bool gated = activation == Activation::swiglu;
  return parameters.column_linear(network + (gated ? ".gate" : ".up"));
}

GroupedLinear grouped_linear(const BlockParameters& parameters, const std::string& name,
                             const std::optional<RowScaling>& scaling, const RowRanks* summed = nullptr) {
  return {parameters.bind(name + ".weight"), parameters.bind_if_there(name + ".bias"), summed, scaling};
}

MixtureOfExperts routed_experts(const BlockParameters& parameters, const FeedForwardSettings& settings,
                                Recompute recompute, const MixtureRanks& ranks) {
  std::optional<RowScaling> scaling;
  if (parameters.multiplies_fp8()) scaling.emplace(ranks.features);
  std::optional<GroupedLinear> gate;
  if (settings.activation == Activation::swiglu) gate = grouped_linear(parameters, "ffn.experts.gate", scaling);
  std::optional<RouterLogits::CosineParameters> cosine;
  if (settings.experts->router == Router::cosine)
    cosine = {parameters.bind("ffn.router_projection.weight"), parameters.bind("ffn.router.temperature")};
  const RouterLogits logits(parameters.bind("ffn.router.weight"), cosine);
  const GroupedLinear down = grouped_linear(parameters, "ffn.experts.down", scaling, ranks.features);
  return {ExpertRouter(logits, *settings.experts, MicroBatchTokens(ranks.tokens)),
          Experts(gate, grouped_linear(parameters, "ffn.experts.up", scaling), down,
                  activation_kind(settings.activation), recompute, scaling),
          ranks};
}

// From the layer's name in the model, so that masks do not depend on the pipeline's layout.
std::uint64_t random_site(const BlockParameters& parameters, const std::string& name) {
  return stable_hash(parameters.block().name + "." + name);
}

// The index in the global batch of the micro-batch's first token.
std::int64_t first_token(const Sequences& rows, const PassContext& pass) {
  return pass.first_sample * rows.whole_length();
}

}  // namespace

FeedForward::FeedForward(const BlockParameters& parameters, Activation activation, const std::string& name,
                         Recompute recompute)
    : activation_(activation_kind(activation)),
      keeps_activated_(recompute == Recompute::none),
      up_(up_projection(parameters, activation, name)),
      down_(parameters.row_linear(name + ".down")) {}

at::Tensor FeedForward::forward(at::Tensor x, const PassContext& pass, Saved& saved) const {
  saved.input = up_.keep(x, pass);
  x.reset();  // in FP8 it is kept as a copy of a byte per element
  saved.hidden = up_.forward(saved.input, pass);
  saved.activated = down_.keep(kernels::activation_forward(saved.hidden, activation_), pass);
  at::Tensor y = down_.forward(saved.activated, pass);
  // Selective recompute drops this and keeps `hidden`, from which one elementwise pass makes it again.
  if (!keeps_activated_) saved.activated.release();
  return y;
}

at::Tensor FeedForward::backward(const at::Tensor& dy, const PassContext& pass, Saved& saved) const {
  if (!keeps_activated_) LinearLayer::restore(saved.activated, kernels::activation_forward(saved.hidden, activation_));
  at::Tensor dactivated = down_.backward(dy, saved.activated, pass);
  // Tensors are released as soon as they are used up, which lowers the peak of the backward.
  saved.activated = {};
  const at::Tensor dhidden = kernels::activation_backward(dactivated, saved.hidden, activation_);
  dactivated.reset();
  const LinearInput input = std::move(saved.input);
  saved = {};
  return up_.backward(dhidden, input, pass);
}

FeedForwardHalf::FeedForwardHalf(const BlockParameters& parameters, const LayerSettings& layer, Recompute recompute,
                                 const MixtureRanks& ranks)
    : split_(parameters.split()),
      layer_(layer.index),
      jitter_site_(random_site(parameters, "ffn.router")),
      noise_site_(random_site(parameters, "ffn.router.noise")),
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
  ExpertRouter::Pass result{.jitter = {}, .rows = at_hand, .share = pass.share_of(rows.whole_rows())};
  // With a cache the rows are what happens to be computed together; what one gets must not depend on the others.
  result.keeps_all = pass.cache != nullptr;
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
  if (!experts_) return network_->forward(std::move(x), pass, saved.network);
  saved.input = x;
  const at::Tensor share = split_.share_of(x);
  ExpertRouter::Pass of_router = router_pass(share, rows, pass);
  if (replay_ != nullptr && pass.trains())
    of_router.replayed = replayed_experts(share.size(0), of_router.rows, rows, pass);
  at::Tensor y = split_.from_shares(experts_->forward(share, of_router, saved.experts, routing));
  if (pass.recorders.token_choices != nullptr && pass.trains())
    pass.recorders.token_choices->record(
        layer_, {saved.experts.router.probabilities, saved.experts.router.experts, saved.experts.map.row_of},
        of_router.rows, first_token(rows, pass));
  if (!network_) return y;
  const at::Tensor shared = network_->forward(x, pass, saved.network);
  if (!shared_gate_) return y.add_(shared);
  shared_gate_->add(y, x, shared, saved.shared_gate);
  return y;
}

at::Tensor FeedForwardHalf::backward(const at::Tensor& dy, const Sequences& rows, const PassContext& pass,
                                     Saved& saved) const {
  if (!experts_) return network_->backward(dy, pass, saved.network);
  const at::Tensor x = std::move(saved.input), share = split_.share_of(x);
  at::Tensor dx =
      split_.from_shares(experts_->backward(split_.share_of(dy), share, router_pass(share, rows, pass), saved.experts));
  if (!network_) return dx;
  const at::Tensor dshared = shared_gate_ ? shared_gate_->backward(dy, x, dx, saved.shared_gate) : dy;
  return dx.add_(network_->backward(dshared, pass, saved.network));
}

void FeedForwardHalf::release_input(Saved& saved) {
  saved.input.reset();
  saved.network.input.release();
}

void FeedForwardHalf::restore_input(Saved& saved, const at::Tensor& x) const {
  if (experts_) saved.input = x;
  if (network_) LinearLayer::restore(saved.network.input, x);
}

struct TransformerLayer::Saved : SavedActivations {
  at::Tensor x;       // the layer's input
  ExchangeTape sent;  // by other ranks, for a forward that runs again
  NormLayer::Statistics attention_statistics;
  SelfAttention::Saved attention;
  at::Tensor middle;  // x + attention
  NormLayer::Statistics ffn_statistics;
  FeedForwardHalf::Saved feed_forward;
};

TransformerLayer::TransformerLayer(const BlockParameters& parameters, const LayerSettings& settings,
                                   AttentionKernel kernel, Recompute recompute, const kernels::RopeTable* rope,
                                   const ContextRanks* context, const MixtureRanks& experts, KeptExchanges* kept)
    : split_(parameters.split()),
      dropout_(settings.dropout),
      recompute_(recompute),
      kept_(kept),
      attention_site_(random_site(parameters, "attention.residual")),
      ffn_site_(random_site(parameters, "ffn.residual")),
      attention_norm_(parameters.norm("attention_norm", settings.norm)),
      ffn_norm_(parameters.norm("ffn_norm", settings.norm)),
      // A layer that runs again as a whole needs no further recompute inside.
      attention_(parameters, settings, kernel, repeats_layers(recompute) ? Recompute::none : recompute, rope, context),
      feed_forward_(parameters, settings, repeats_layers(recompute) ? Recompute::none : recompute, experts) {}

void TransformerLayer::drop(at::Tensor& branch, const Sequences& rows, const PassContext& pass,
                            std::uint64_t site) const {
  if (!pass.trains() || dropout_ == 0) return;
  split_.drop_own_rows(branch, rows, pass, dropout_, site);
}

at::Tensor TransformerLayer::branch_gradient(const at::Tensor& dy, const Sequences& rows, const PassContext& pass,
                                             std::uint64_t site) const {
  if (dropout_ == 0) return dy;
  // A copy, since dy is also the gradient of the residual connection, which has no dropout.
  at::Tensor gradient = dy.clone();
  drop(gradient, rows, pass, site);
  return gradient;
}

at::Tensor TransformerLayer::run(const at::Tensor& x, const Sequences& rows, const PassContext& pass, Saved& saved,
                                 LayerRouting& routing) const {
  saved.middle =
      attention_.forward(attention_norm_.forward(x, saved.attention_statistics), rows, pass, saved.attention);
  drop(saved.middle, rows, pass, attention_site_);
  // The branch's memory becomes the residual stream: one tensor less than adding out of place.
  saved.middle.add_(x);
  at::Tensor y = feed_forward_.forward(ffn_norm_.forward(saved.middle, saved.ffn_statistics), rows, pass,
                                       saved.feed_forward, routing);
  drop(y, rows, pass, ffn_site_);
  return y.add_(saved.middle);
}

// Keeps what the backward needs besides x to run the same forward again, with the same masks.
at::Tensor TransformerLayer::run_and_keep(const at::Tensor& x, const Sequences& rows, const PassContext& pass,
                                          Saved& saved, LayerRouting& routing) const {
  Saved released;
  std::optional<KeptExchanges::Scope> scope;
  if (kept_ != nullptr) scope.emplace(*kept_, KeptExchanges::Mode::keep, saved.sent);
  return run(x, rows, pass, released, routing);
}

void TransformerLayer::run_again(const Sequences& rows, const PassContext& pass, Saved& saved) const {
  LayerRouting counted_already;
  std::optional<KeptExchanges::Scope> scope;
  if (kept_ != nullptr) scope.emplace(*kept_, KeptExchanges::Mode::answer, saved.sent);
  run(saved.x, rows, pass, saved, counted_already);
}

BlockModule::Output TransformerLayer::forward(const at::Tensor& x, const Batch& batch, const PassContext& pass) const {
  const Sequences& rows = batch.sequences();
  auto saved = std::make_unique<Saved>();
  LayerRouting routing;
  const bool repeats = pass.trains() && repeats_layers(recompute_);
  at::Tensor y = repeats ? run_and_keep(x, rows, pass, *saved, routing) : run(x, rows, pass, *saved, routing);
  if (!pass.trains()) return {std::move(y), nullptr};
  // Norms are made again from their input and kept statistics, without another reduction.
  if (recompute_ == Recompute::selective) {
    saved->attention.input.release();
    FeedForwardHalf::release_input(saved->feed_forward);
  }
  saved->x = x;
  return {std::move(y), std::move(saved), std::move(routing)};
}

at::Tensor TransformerLayer::backward(at::Tensor dy, const Batch& batch, const PassContext& pass,
                                      std::unique_ptr<SavedActivations> kept) const {
  const Sequences& rows = batch.sequences();
  auto& saved = static_cast<Saved&>(*kept);
  if (repeats_layers(recompute_)) run_again(rows, pass, saved);
  if (recompute_ == Recompute::selective)
    feed_forward_.restore_input(saved.feed_forward, ffn_norm_.recompute(saved.middle, saved.ffn_statistics));
  const at::Tensor dffn =
      feed_forward_.backward(branch_gradient(dy, rows, pass, ffn_site_), rows, pass, saved.feed_forward);
  // Adds to dy, which already holds the gradient of the residual connection: dy then is the gradient of `middle`.
  ffn_norm_.backward(dffn, saved.middle, saved.ffn_statistics, dy);
  // Released before attention's backward, which has a peak of its own.
  saved.middle.reset();

  if (recompute_ == Recompute::selective)
    LinearLayer::restore(saved.attention.input, attention_norm_.recompute(saved.x, saved.attention_statistics));
  const at::Tensor dattention =
      attention_.backward(branch_gradient(dy, rows, pass, attention_site_), rows, pass, saved.attention);
  attention_norm_.backward(dattention, saved.x, saved.attention_statistics, dy);
  return dy;
}

}  // namespace llmtrain
