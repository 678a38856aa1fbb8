// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "core/model/block_module.h"
#include "core/model/block_modules.h"
#include "core/model/feed_forward_half.h"
#include "core/model/kept_exchanges.h"
#include "core/model/layers/block_parameters.h"
#include "core/model/self_attention.h"
#include "core/model/stage.h"
#include "core/model/token_dropping_layer.h"
#include "core/recipe/recipe.h"

namespace llmtrain {
namespace {

// The norm of what a half makes, before it is added to the residual stream; none in most models.
class PostNorm {
 public:
  struct Saved {
    at::Tensor branch;
    NormLayer::Statistics statistics;

    void visit(const KeptTensorVisitor& visit) {
      visit(branch);
      statistics.visit(visit);
    }
  };

  PostNorm(const BlockParameters& parameters, const LayerSettings& settings, const char* name) {
    if (settings.has_post_norms) norm_.emplace(parameters.norm(name, settings.norm));
  }

  at::Tensor forward(at::Tensor branch, Saved& saved) const {
    if (!norm_) return branch;
    saved.branch = std::move(branch);
    return norm_->forward(saved.branch, saved.statistics);
  }
  at::Tensor backward(const at::Tensor& dy, Saved& saved) const {
    if (!norm_) return dy;
    // The kernel adds to dx, and this norm has no residual connection.
    at::Tensor dx = at::zeros_like(dy);
    norm_->backward(dy, saved.branch, saved.statistics, dx);
    saved = {};
    return dx;
  }

 private:
  std::optional<NormLayer> norm_;
};

// A pre-norm transformer layer: x + attention(norm(x)), then the same with the feed-forward network; or both of them of
// the same x, through norms of their own or through one (Wang and Komatsuzaki, GPT-J). Recompute "full"
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
  // The same where both halves read x.
  at::Tensor run_parallel(const at::Tensor& x, const Sequences& rows, const PassContext& pass, Saved& saved,
                          LayerRouting& routing) const;
  at::Tensor backward_parallel(at::Tensor dy, const Sequences& rows, const PassContext& pass, Saved& saved) const;
  // The dropout of a residual branch; `site` distinguishes attention from feed-forward.
  TensorSplit::OwnDropout dropout_of(const at::Tensor& branch, const Sequences& rows, const PassContext& pass,
                                     std::uint64_t site) const;
  at::Tensor branch_gradient(const at::Tensor& dy, const Sequences& rows, const PassContext& pass,
                             std::uint64_t site) const;

  TensorSplit split_;
  double dropout_;
  Recompute recompute_;
  KeptExchanges* kept_;
  std::uint64_t attention_site_, ffn_site_;
  ParallelResidual parallel_;
  NormLayer attention_norm_;
  std::optional<NormLayer> ffn_norm_;  // none where attention's is that of both halves
  PostNorm attention_post_norm_, ffn_post_norm_;
  SelfAttention attention_;
  FeedForwardHalf feed_forward_;
};

struct TransformerLayer::Saved : SavedActivations {
  at::Tensor x;       // the layer's input
  ExchangeTape sent;  // by other ranks, for a forward that runs again
  NormLayer::Statistics attention_statistics;
  SelfAttention::Saved attention;
  PostNorm::Saved attention_post_norm;
  at::Tensor middle;  // x + attention; undefined where both halves read x
  NormLayer::Statistics ffn_statistics;
  FeedForwardHalf::Saved feed_forward;
  PostNorm::Saved ffn_post_norm;

  void visit(const KeptTensorVisitor& visit) override {
    visit_all(visit, {&x, &middle});
    for (at::Tensor& tensor : sent.tensors) visit(tensor);
    attention_statistics.visit(visit);
    attention.visit(visit);
    attention_post_norm.visit(visit);
    ffn_statistics.visit(visit);
    feed_forward.visit(visit);
    ffn_post_norm.visit(visit);
  }
};

TransformerLayer::TransformerLayer(const BlockParameters& parameters, const LayerSettings& settings,
                                   AttentionKernel kernel, Recompute recompute, const kernels::RopeTable* rope,
                                   const ContextRanks* context, const MixtureRanks& experts, KeptExchanges* kept)
    : split_(parameters.split()),
      dropout_(settings.dropout),
      recompute_(recompute),
      kept_(kept),
      attention_site_(parameters.random_site("attention.residual")),
      ffn_site_(parameters.random_site("ffn.residual")),
      parallel_(settings.parallel),
      attention_norm_(parameters.norm("attention_norm", settings.norm)),
      attention_post_norm_(parameters, settings, "attention_post_norm"),
      ffn_post_norm_(parameters, settings, "ffn_post_norm"),
      // A layer that runs again as a whole needs no further recompute inside.
      attention_(parameters, settings, kernel, repeats_layers(recompute) ? Recompute::none : recompute, rope, context),
      feed_forward_(parameters, settings, repeats_layers(recompute) ? Recompute::none : recompute, experts) {
  if (parallel_ != ParallelResidual::one_norm) ffn_norm_.emplace(parameters.norm("ffn_norm", settings.norm));
}

TensorSplit::OwnDropout TransformerLayer::dropout_of(const at::Tensor& branch, const Sequences& rows,
                                                     const PassContext& pass, std::uint64_t site) const {
  return split_.own_dropout(branch, rows, pass, pass.trains() ? dropout_ : 0, site);
}

at::Tensor TransformerLayer::branch_gradient(const at::Tensor& dy, const Sequences& rows, const PassContext& pass,
                                             std::uint64_t site) const {
  // Not in place, since dy is also the gradient of the residual connection, which has no dropout.
  const auto own = dropout_of(dy, rows, pass, site);
  return kernels::dropped_rows(dy, own.dropout, own.rows);
}

at::Tensor TransformerLayer::run(const at::Tensor& x, const Sequences& rows, const PassContext& pass, Saved& saved,
                                 LayerRouting& routing) const {
  if (parallel_ != ParallelResidual::none) return run_parallel(x, rows, pass, saved, routing);
  saved.middle = attention_post_norm_.forward(
      attention_.forward(attention_norm_.forward(x, saved.attention_statistics), rows, pass, saved.attention),
      saved.attention_post_norm);
  const auto attention_dropout = dropout_of(saved.middle, rows, pass, attention_site_);
  kernels::dropout_rows_(saved.middle, attention_dropout.dropout, attention_dropout.rows);
  // The branch's memory becomes the residual stream: one tensor less than adding out of place.
  at::Tensor y =
      ffn_post_norm_.forward(feed_forward_.forward(ffn_norm_->add_forward(saved.middle, x, saved.ffn_statistics), rows,
                                                   pass, saved.feed_forward, routing),
                             saved.ffn_post_norm);
  const auto ffn_dropout = dropout_of(y, rows, pass, ffn_site_);
  kernels::add_dropped_rows_(y, saved.middle, ffn_dropout.dropout, ffn_dropout.rows);
  return y;
}

at::Tensor TransformerLayer::run_parallel(const at::Tensor& x, const Sequences& rows, const PassContext& pass,
                                          Saved& saved, LayerRouting& routing) const {
  const at::Tensor normed = attention_norm_.forward(x, saved.attention_statistics);
  at::Tensor sum = attention_.forward(normed, rows, pass, saved.attention);
  const auto attention_dropout = dropout_of(sum, rows, pass, attention_site_);
  kernels::add_dropped_rows_(sum, x, attention_dropout.dropout, attention_dropout.rows);
  at::Tensor y = feed_forward_.forward(ffn_norm_ ? ffn_norm_->forward(x, saved.ffn_statistics) : normed, rows, pass,
                                       saved.feed_forward, routing);
  const auto ffn_dropout = dropout_of(y, rows, pass, ffn_site_);
  kernels::add_dropped_rows_(y, sum, ffn_dropout.dropout, ffn_dropout.rows);
  return y;
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

BlockModule::Output TransformerLayer::forward(Tensors inputs, const Batch& batch, const PassContext& pass) const {
  const at::Tensor& x = inputs.front();
  const Sequences& rows = batch.sequences();
  auto saved = std::make_unique<Saved>();
  LayerRouting routing;
  const bool repeats = pass.trains() && repeats_layers(recompute_);
  at::Tensor y = repeats ? run_and_keep(x, rows, pass, *saved, routing) : run(x, rows, pass, *saved, routing);
  if (!pass.trains()) return {Tensors{std::move(y)}, nullptr};
  // Norms are made again from their input and kept statistics, without another reduction.
  if (recompute_ == Recompute::selective) {
    saved->attention.input.release();
    FeedForwardHalf::release_input(saved->feed_forward);
  }
  saved->x = x;
  return {Tensors{std::move(y)}, std::move(saved), std::move(routing)};
}

Tensors TransformerLayer::backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                                   std::unique_ptr<SavedActivations> kept) const {
  at::Tensor dy = std::move(gradients.front());
  const Sequences& rows = batch.sequences();
  auto& saved = static_cast<Saved&>(*kept);
  if (repeats_layers(recompute_)) run_again(rows, pass, saved);
  if (parallel_ != ParallelResidual::none) return {backward_parallel(std::move(dy), rows, pass, saved)};
  if (recompute_ == Recompute::selective)
    feed_forward_.restore_input(saved.feed_forward, ffn_norm_->recompute(saved.middle, saved.ffn_statistics));
  const at::Tensor dffn =
      feed_forward_.backward(ffn_post_norm_.backward(branch_gradient(dy, rows, pass, ffn_site_), saved.ffn_post_norm),
                             rows, pass, saved.feed_forward);
  // Adds to dy, which already holds the gradient of the residual connection: dy then is the gradient of `middle`.
  ffn_norm_->backward(dffn, saved.middle, saved.ffn_statistics, dy);
  // Released before attention's backward, which has a peak of its own.
  saved.middle.reset();

  if (recompute_ == Recompute::selective)
    LinearLayer::restore(saved.attention.input, attention_norm_.recompute(saved.x, saved.attention_statistics));
  const at::Tensor dattention = attention_.backward(
      attention_post_norm_.backward(branch_gradient(dy, rows, pass, attention_site_), saved.attention_post_norm), rows,
      pass, saved.attention);
  attention_norm_.backward(dattention, saved.x, saved.attention_statistics, dy);
  return {std::move(dy)};
}

// Both halves get the gradient at the layer's output, before either adds to it that at its input.
at::Tensor TransformerLayer::backward_parallel(at::Tensor dy, const Sequences& rows, const PassContext& pass,
                                               Saved& saved) const {
  if (recompute_ == Recompute::selective) {
    const at::Tensor normed = attention_norm_.recompute(saved.x, saved.attention_statistics);
    LinearLayer::restore(saved.attention.input, normed);
    feed_forward_.restore_input(saved.feed_forward,
                                ffn_norm_ ? ffn_norm_->recompute(saved.x, saved.ffn_statistics) : normed);
  }
  const at::Tensor dffn =
      feed_forward_.backward(branch_gradient(dy, rows, pass, ffn_site_), rows, pass, saved.feed_forward);
  const at::Tensor dattention =
      attention_.backward(branch_gradient(dy, rows, pass, attention_site_), rows, pass, saved.attention);
  if (ffn_norm_) {
    ffn_norm_->backward(dffn, saved.x, saved.ffn_statistics, dy);
    attention_norm_.backward(dattention, saved.x, saved.attention_statistics, dy);
  } else {
    attention_norm_.backward(dattention.add(dffn), saved.x, saved.attention_statistics, dy);
  }
  return dy;
}

}  // namespace

std::unique_ptr<BlockModule> module_of(const LayerSettings& settings, const BlockParameters& parameters,
                                       const StageOptions& options, KeptExchanges* kept) {
  const auto& rope = settings.attention.rope;
  auto layer = std::make_unique<TransformerLayer>(parameters, settings, options.attention, options.recompute,
                                                  rope ? &options.rope->of(*rope) : nullptr, options.context,
                                                  options.experts, kept);
  if (!settings.drops_tokens) return layer;
  return std::make_unique<TokenDroppingLayer>(std::move(layer), parameters.random_site("token_dropping"));
}

}  // namespace llmtrain
