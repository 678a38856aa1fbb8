// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/model/layers/block_parameters.h"
#include "core/model/layers/context_ranks.h"
#include "core/model/pass/pass_context.h"
#include "core/recipe/recipe.h"
#include "kernels/attention/attention.h"
#include "kernels/rope.h"

namespace llmtrain {

// Causal self-attention with grouped queries, rotary positions and query-key norms, from the normed input to the output
// projection. A tensor rank has heads / ranks consecutive query heads and the key and value heads that they read. The
// backward is explicit, without autograd, so exactly `Saved` is kept between the passes.
class SelfAttention {
 public:
  struct Saved {
    LinearInput input;           // of the projection; its values are released where the backward makes them again
    at::Tensor query_key_value;  // [T, (heads + 2·kv_heads)·D], after RoPE unless there are query-key norms
    at::Tensor query, key;       // normed and rotated copies [B, S, ·, D]; only with query-key norms
    NormLayer::Statistics query_statistics, key_statistics;
    kernels::AttentionOutput attention;  // statistics undefined when the backward recomputes it
    LinearInput output;                  // of the output projection, without values: they are attention.out

    void visit(const KeptTensorVisitor& visit) {
      input.visit(visit);
      visit_all(visit, {&query_key_value, &query, &key, &attention.out, &attention.statistics});
      query_statistics.visit(visit);
      key_statistics.visit(visit);
      output.visit(visit);
    }
  };

  SelfAttention(const BlockParameters& parameters, const LayerSettings& layer, AttentionKernel kernel,
                Recompute recompute, const kernels::RopeTable* rope, const ContextRanks* context = nullptr);

  // x [R, H] → [R, H], this rank's rows; in between it works on all rows of its heads. `rope` and `context` of the
  // constructor outlive this object.
  at::Tensor forward(at::Tensor x, const Sequences& rows, const PassContext& pass, Saved& saved) const;
  // Returns the gradient of the forward's input. Leaves `saved` empty.
  at::Tensor backward(const at::Tensor& dy, const Sequences& rows, const PassContext& pass, Saved& saved) const;

 private:
  struct Views {
    at::Tensor query, key, value;  // [B, S, ·, D]
  };
  Views split(const at::Tensor& query_key_value, const Sequences& rows) const;
  at::Tensor normed(const NormLayer& norm, const at::Tensor& x, NormLayer::Statistics& statistics) const;
  // In place, in the gradient of the norm's output.
  void norm_backward(const NormLayer& norm, const at::Tensor& x, const NormLayer::Statistics& statistics,
                     const at::Tensor& gradient) const;
  // Queries and keys, which lie side by side. [B, S, heads + kv_heads, D]
  at::Tensor queries_and_keys(const at::Tensor& query_key_value, const Sequences& rows) const;
  struct Angles {
    kernels::RopeTable table;
    std::int64_t sequence_length;  // token t has the angles of row t mod sequence_length
  };
  // None without rotary positions.
  std::optional<Angles> angles_of(const Sequences& rows, const PassContext& pass) const;
  void rotate(at::Tensor heads, const Sequences& rows, const PassContext& pass, kernels::RopeDirection direction) const;
  Views attention_inputs(const Sequences& rows, Saved& saved) const;
  at::Tensor flat_heads(const at::Tensor& heads, const Sequences& rows) const;  // [B, S, heads, D] → [T, heads·D]
  // The rows' attention to the tokens of their sequences that they see.
  // `all`: all_keys(), unless there is a cache.
  kernels::AttentionOutput attend(const Views& views, const KeysAndValues& all, const Sequences& rows,
                                  const PassContext& pass) const;
  bool shares_sequences(const Sequences& rows) const;
  // The gradients of the core's inputs as that of the projection's output [T, (heads + 2·kv_heads)·D], before the
  // norms' backward.
  void join(kernels::AttentionGradients gradients, const Sequences& rows, const PassContext& pass,
            const at::Tensor& joined) const;
  // Keys and values of the whole sequences.
  KeysAndValues all_keys(const Views& views, const Sequences& rows) const;
  kernels::Dropout probability_dropout(const Sequences& rows, const PassContext& pass) const;
  kernels::AttentionCall call(const Sequences& rows, const PassContext& pass) const;

  std::int64_t layer_;
  std::int64_t heads_, kv_heads_, head_dim_;  // heads of this rank
  std::int64_t first_head_, all_heads_;
  double dropout_;
  std::optional<std::int64_t> window_;  // none: all tokens before
  std::optional<double> scale_;
  std::uint64_t dropout_site_;
  kernels::AttentionMethod method_;
  bool by_cudnn_;  // but for generation
  bool keeps_probabilities_;
  const kernels::RopeTable* rope_;  // null without rotary positions
  const ContextRanks* context_;     // null where no ranks share the sequences
  ColumnLinear projection_;
  RowLinear output_;
  std::optional<NormLayer> query_norm_, key_norm_;
  std::optional<BoundParameter> sinks_;
};

}  // namespace llmtrain
