// SPDX-License-Identifier: Apache-2.0
#include "core/model/self_attention.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "core/graph/pass_setting.h"
#include "core/model/key_value_cache.h"
#include "kernels/joined_heads.h"

namespace llmtrain {
namespace {

// The Graph chooses the method; it links no LibTorch, so the kernels have an enumeration of their own.
kernels::AttentionMethod method_for(const AttentionSettings& attention, AttentionKernel kernel) {
  return attention_method(attention, kernel) == AttentionMethod::flash ? kernels::AttentionMethod::flash
                                                                       : kernels::AttentionMethod::math;
}

// Norms of queries and keys are root-mean-square norms without bias, as in Qwen3.
std::optional<NormLayer> head_norm(const BlockParameters& parameters, const AttentionSettings& attention,
                                   std::string_view weight) {
  if (!attention.head_norm_epsilon) return std::nullopt;
  return NormLayer(NormKind::rmsnorm, *attention.head_norm_epsilon, parameters.bind(weight), std::nullopt);
}

}  // namespace

SelfAttention::SelfAttention(const BlockParameters& parameters, const LayerSettings& layer, AttentionKernel kernel,
                             Recompute recompute, const kernels::RopeTable* rope, const ContextRanks* context)
    : layer_(layer.index),
      heads_(parameters.local_units("attention.query.weight")),
      kv_heads_(parameters.local_units("attention.key.weight")),
      head_dim_(layer.attention.head_dim),
      first_head_(parameters.split().position() * heads_),
      all_heads_(parameters.units("attention.query.weight")),
      dropout_(layer.attention.dropout),
      window_(layer.attention.window),
      scale_(layer.attention.scale),
      dropout_site_(parameters.random_site("attention.probabilities")),
      method_(method_for(layer.attention, kernel)),
      by_cudnn_(kernel == AttentionKernel::cudnn),
      // Flash keeps one number per row, which is cheap; the math path keeps S × S probabilities, which recompute drops.
      keeps_probabilities_(method_ == kernels::AttentionMethod::flash || recompute == Recompute::none),
      rope_(rope),
      context_(context),
      projection_(parameters.column_linear("attention.query")),
      output_(parameters.row_linear("attention.output")),
      query_norm_(head_norm(parameters, layer.attention, "attention.query_norm.weight")),
      key_norm_(head_norm(parameters, layer.attention, "attention.key_norm.weight")),
      sinks_(parameters.bind_if_there("attention.sinks")) {}

SelfAttention::Views SelfAttention::split(const at::Tensor& query_key_value, const Sequences& rows) const {
  const at::Tensor heads = query_key_value.view({rows.count, rows.length, heads_ + 2 * kv_heads_, head_dim_});
  // Views of the projection's output: no copy, and rotation works in place.
  return {heads.narrow(2, 0, heads_), heads.narrow(2, heads_, kv_heads_),
          heads.narrow(2, heads_ + kv_heads_, kv_heads_)};
}

at::Tensor SelfAttention::queries_and_keys(const at::Tensor& query_key_value, const Sequences& rows) const {
  return query_key_value.view({rows.count, rows.length, heads_ + 2 * kv_heads_, head_dim_})
      .narrow(2, 0, heads_ + kv_heads_);
}

at::Tensor SelfAttention::normed(const NormLayer& norm, const at::Tensor& x, NormLayer::Statistics& statistics) const {
  // One weight for all heads: each head of each token is a row.
  const at::Tensor rows = x.contiguous().view({-1, head_dim_});
  return norm.forward(rows, statistics).view(x.sizes());
}

void SelfAttention::norm_backward(const NormLayer& norm, const at::Tensor& x, const NormLayer::Statistics& statistics,
                                  const at::Tensor& gradient) const {
  const at::Tensor rows = x.contiguous().view({-1, head_dim_});
  // The kernel adds to dx, and these norms have no residual connection.
  at::Tensor dx = at::zeros_like(rows);
  norm.backward(gradient.contiguous().view({-1, head_dim_}), rows, statistics, dx);
  gradient.copy_(dx.view(x.sizes()));
}

std::optional<SelfAttention::Angles> SelfAttention::angles_of(const Sequences& rows, const PassContext& pass) const {
  if (rope_ == nullptr) return {};
  // A row of angles per token, as documents start anywhere.
  if (rows.positions.defined())
    return Angles{{rope_->cosine.index_select(0, rows.positions), rope_->sine.index_select(0, rows.positions)},
                  rows.rows()};
  if (pass.cache != nullptr) return Angles{pass.cache->rotations_of(*rope_), rows.length};
  return Angles{kernels::rope_rows(*rope_, rows.part, rows.length), rows.length};
}

void SelfAttention::rotate(at::Tensor heads, const Sequences& rows, const PassContext& pass,
                           kernels::RopeDirection direction) const {
  const std::optional<Angles> angles = angles_of(rows, pass);
  if (!angles) return;
  // A view, although its argument may be a strided slice: tokens of all samples have one stride.
  at::Tensor tokens = heads.view({rows.rows(), heads.size(2), head_dim_});
  kernels::rope_(tokens, angles->table, angles->sequence_length, direction);
}

SelfAttention::Views SelfAttention::attention_inputs(const Sequences& rows, Saved& saved) const {
  Views views = split(saved.query_key_value, rows);
  // Normed queries and keys are copies; the projection keeps their input, which the norms' backward needs. Values are
  // not normed.
  if (saved.query.defined()) {
    views.query = saved.query;
    views.key = saved.key;
  }
  return views;
}

bool SelfAttention::shares_sequences(const Sequences& rows) const {
  return context_ != nullptr && !rows.part.is_whole();
}

KeysAndValues SelfAttention::all_keys(const Views& views, const Sequences& rows) const {
  const KeysAndValues own{views.key, views.value};
  return shares_sequences(rows) ? context_->gather(own) : own;
}

kernels::Dropout SelfAttention::probability_dropout(const Sequences& rows, const PassContext& pass) const {
  if (!pass.trains() || dropout_ == 0) return {};
  // Elements are counted in [samples, all heads, S, S] of the whole model, so that every layout drops the same ones.
  const std::int64_t length = rows.whole_length(), each_head = length * length;
  kernels::Dropout dropout = dropout_at(pass, dropout_, dropout_site_, all_heads_ * each_head);
  // A tensor rank has consecutive heads of each sample: one run per sample, a whole sample's heads apart.
  if (heads_ == all_heads_) return dropout;
  dropout.first_element += first_head_ * each_head;
  dropout.run = heads_ * each_head;
  dropout.stride = all_heads_ * each_head;
  return dropout;
}

kernels::AttentionCall SelfAttention::call(const Sequences& rows, const PassContext& pass) const {
  kernels::AttentionCall call{method_,
                              probability_dropout(rows, pass),
                              rows.part,
                              {rows.documents, rows.document_starts, rows.document_pieces.get()}};
  call.by_cudnn = by_cudnn_;
  call.window = window_;
  call.scale = scale_;
  if (sinks_) call.sinks = sinks_->weight();
  return call;
}

kernels::AttentionOutput SelfAttention::attend(const Views& views, const KeysAndValues& all, const Sequences& rows,
                                               const PassContext& pass) const {
  if (pass.cache != nullptr) {
    const kernels::CachedAttentionCall cached{method_, window_, scale_, sinks_ ? sinks_->weight() : at::Tensor()};
    return {pass.cache->attend(layer_, views.query, {views.key, views.value}, cached), {}};
  }
  return kernels::attention_forward(views.query, all.key, all.value, call(rows, pass));
}

at::Tensor SelfAttention::forward(at::Tensor x, const Sequences& rows, const PassContext& pass, Saved& saved) const {
  saved.input = projection_.keep(x, pass);
  x.reset();  // in FP8 it is kept as a copy of a byte per element
  saved.query_key_value = projection_.forward(saved.input, rows, pass);
  // In place in what is saved: the backward needs rotated queries and keys, and undoes the rotation on gradients.
  if (query_norm_) {
    const Views raw = split(saved.query_key_value, rows);
    saved.query = normed(*query_norm_, raw.query, saved.query_statistics);
    saved.key = normed(*key_norm_, raw.key, saved.key_statistics);
    rotate(saved.query, rows, pass, kernels::RopeDirection::forward);
    rotate(saved.key, rows, pass, kernels::RopeDirection::forward);
  } else {
    rotate(queries_and_keys(saved.query_key_value, rows), rows, pass, kernels::RopeDirection::forward);
  }
  const Views views = attention_inputs(rows, saved);
  // Gathered keys and values are released here and gathered again in the backward: they are as long as the whole
  // sequence.
  saved.attention = attend(views, all_keys(views, rows), rows, pass);
  // The output stays, as the output projection's weight gradient needs it; only the S × S probabilities go.
  if (!keeps_probabilities_) saved.attention.statistics.reset();
  saved.output = output_.keep(flat_heads(saved.attention.out, rows), pass);
  at::Tensor y = output_.forward(saved.output, rows, pass);
  // Flash attention's backward needs its output in the compute type, from which FP8 values are cast again.
  saved.output.release();
  return y;
}

at::Tensor SelfAttention::flat_heads(const at::Tensor& heads, const Sequences& rows) const {
  return heads.view({rows.rows(), heads_ * head_dim_});
}

// A rotation is orthogonal: its gradient is the inverse rotation. It comes before the norms' backward, as the forward
// norms first.
void SelfAttention::join(kernels::AttentionGradients gradients, const Sequences& rows, const PassContext& pass,
                         const at::Tensor& joined) const {
  if (shares_sequences(rows)) {
    const Views parts = split(joined, rows);
    parts.query.copy_(gradients.query);
    // Every context rank's queries contribute to the gradients of all keys.
    context_->scatter_sum({std::move(gradients.key), std::move(gradients.value)}, {parts.key, parts.value});
    rotate(queries_and_keys(joined, rows), rows, pass, kernels::RopeDirection::backward);
    return;
  }
  const std::optional<Angles> angles = angles_of(rows, pass);
  kernels::join_heads({gradients.query, gradients.key, gradients.value}, angles ? &angles->table : nullptr,
                      angles ? angles->sequence_length : rows.length,
                      joined.view({rows.count, rows.length, heads_ + 2 * kv_heads_, head_dim_}));
}

at::Tensor SelfAttention::backward(const at::Tensor& dy, const Sequences& rows, const PassContext& pass,
                                   Saved& saved) const {
  const Views views = attention_inputs(rows, saved);
  KeysAndValues all = all_keys(views, rows);
  // Dropout is generated from its key, so the repeated forward gives the same result.
  if (!saved.attention.statistics.defined()) saved.attention = attend(views, all, rows, pass);
  LinearLayer::restore(saved.output, flat_heads(saved.attention.out, rows));
  const at::Tensor dout = output_.backward(dy, saved.output, rows, pass).view(saved.attention.out.sizes());
  saved.output = {};
  kernels::AttentionGradients gradients =
      kernels::attention_backward(dout, views.query, all.key, all.value, saved.attention, call(rows, pass));
  all = {};
  saved.attention = {};
  if (sinks_ && !sinks_->is_frozen()) sinks_->added_gradient().add_(gradients.sinks);

  const at::Tensor gradient = at::empty_like(saved.query_key_value);
  join(std::move(gradients), rows, pass, gradient);
  if (query_norm_) {
    const Views raw = split(saved.query_key_value, rows), parts = split(gradient, rows);
    norm_backward(*query_norm_, raw.query, saved.query_statistics, parts.query);
    norm_backward(*key_norm_, raw.key, saved.key_statistics, parts.key);
  }
  const LinearInput input = std::move(saved.input);
  saved = {};
  return projection_.backward(gradient, input, rows, pass);
}

}  // namespace llmtrain
