// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/body/body_writer.h"

namespace llmtrain::body {

// Attention with its projections, along the last axis of x.
struct AttentionPart {
  std::int64_t heads = 1;
  std::int64_t head_dim = 1;
  bool has_biases = true;  // of all four projections
  bool is_causal = false;
  std::optional<double> scale{};  // of scores; none: 1 ÷ √head_dim
  double dropout = 0;             // of probabilities
};

// One or two linear layers to `width`, the activation, and one back; gated: activation(gate)·up.
struct FeedForwardPart {
  std::int64_t width = 1;
  ElementwiseKind activation = ElementwiseKind::gelu;  // of one operand
  bool is_gated = false;
  bool has_biases = true;
  double dropout = 0;  // of what is activated
};

// Around what a layer computes: x + dropout(f(norm(x))), or norm(x + dropout(f(x))) as the first transformers have it
// (Vaswani et al., arXiv 1706.03762; Xiong et al., arXiv 2002.04745, compare the two).
struct ResidualPart {
  bool norms_before = true;
  Norm norm{};
  double dropout = 0;
};

// A layer of a transformer: attention within the sequence, perhaps attention to another one, and a feed-forward
// network, each with its residual. The parameters are "attention.query.weight" [heads, head_dim, hidden],
// "attention.output.weight" [hidden, heads, head_dim], "attention_norm.weight", those of "cross_attention" alike,
// "ffn.gate.weight", "ffn.up.weight" [width, hidden], "ffn.down.weight", "ffn_norm.weight", and biases.
struct TransformerLayer {
  AttentionPart attention{};
  FeedForwardPart feed_forward{};
  ResidualPart residual{};
};

// What a layer reads beside x, [sequences, tokens, hidden].
struct LayerReads {
  // What the cross-attention looks at, [sequences, source tokens, hidden] of an encoder; none: there is none.
  std::optional<TensorId> memory{};
  // Added to the scores of the attention within the sequence, [heads, tokens, keys]. Queries and keys have labels of
  // their own, of one extent.
  std::optional<TensorId> score_bias{};
  // The label of heads, where the bias has one already.
  std::optional<AxisId> heads{};
};

TensorId write_layer(BodyWriter& writer, const TransformerLayer& layer, TensorId x, const LayerReads& reads = {});

// What layers consist of; `name` begins the names of their parameters.
struct Heads {
  AxisId heads = 0, features = 0;
};
// Queries are made of x, keys and values of `memory`, which may be x.
TensorId write_attention(BodyWriter& writer, const std::string& name, const AttentionPart& part, const Heads& axes,
                         TensorId x, TensorId memory, std::optional<TensorId> score_bias = {});
TensorId write_feed_forward(BodyWriter& writer, const std::string& name, const FeedForwardPart& part, TensorId x);
// The norm is called "<name>_norm", and the site of dropout "<name>.output.dropout".
TensorId write_residual(BodyWriter& writer, const std::string& name, const ResidualPart& part, TensorId x,
                        const std::function<TensorId(TensorId normed)>& write);

}  // namespace llmtrain::body
