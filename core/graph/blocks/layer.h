// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/graph/blocks/block_kind.h"

namespace llmtrain {

// Rotary positions of queries and keys.
struct RopeSettings {
  std::int64_t positions = 0;  // that may occur: 0 up to this
  std::int64_t head_dim = 0;
  double theta = 10000;
  std::optional<RopeScalingRecipe> scaling{};

  bool operator==(const RopeSettings&) const = default;
};

// Causal self-attention with grouped queries, or with latent keys and values.
struct AttentionSettings {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::optional<LatentAttentionRecipe> latent{};
  std::optional<std::int64_t> window{};       // tokens that a query sees, its own included; none: all before it
  std::optional<double> head_norm_epsilon{};  // of root-mean-square norms of each query and key; none: no such norms
  std::optional<RopeSettings> rope{};
  bool has_gate = false;          // of what heads make (Qiu et al., arXiv 2505.06708)
  std::optional<double> scale{};  // of products of queries and keys; none: 1 ÷ √head_dim
  bool has_sinks = false;         // a learned logit per head in each softmax (OpenAI, arXiv 2508.10925)
  double dropout = 0;             // of probabilities

  bool operator==(const AttentionSettings&) const = default;
};

// A dense network, or a mixture of experts in its place.
struct FeedForwardSettings {
  Activation activation = Activation::gelu_tanh;
  std::int64_t width = 0;  // of the dense network
  std::optional<MixtureOfExpertsRecipe> experts{};

  bool operator==(const FeedForwardSettings&) const = default;
};

// A pre-norm transformer layer. What planned_model_keys() names has no module (core/recipe/rules/planned_model.h).
struct LayerSettings {
  static constexpr bool reads_in_backward = true;
  static constexpr bool runs_again = true;
  // What is between the ends reads what these make of the samples.
  static constexpr std::array fields = no_fields;

  std::int64_t index = 0;  // among the model's layers, by which metrics, caches and foreign files count them
  std::int64_t hidden_size = 0;
  NormSettings norm{};
  double dropout = 0;  // of what both halves add to the residual stream
  // What mixes tokens, and a feed-forward network; one of the two may be missing.
  bool has_mixer = true, has_feed_forward = true;
  AttentionSettings attention{};
  std::optional<LinearAttentionRecipe> linear_attention{};  // in place of attention
  FeedForwardSettings feed_forward{};
  // Whether the two halves read the same input (Wang and Komatsuzaki, GPT-J), in place of the second the first's sum.
  ParallelResidual parallel = ParallelResidual::none;
  bool has_post_norms = false;  // of what the halves make, before it is added
  // Whether it predicts a further token: it reads a norm of what the layer before it made beside one of the embedding
  // of the token that was predicted there, through a projection of both. It is no unit of stages.
  bool predicts = false;
  bool drops_tokens = false;  // may see a part of each sequence alone (core/graph/marks/token_dropping.h)

  bool operator==(const LayerSettings&) const = default;
};

void write_graph(GraphWriter& writer, const LayerSettings& layer);
void write_operators(OperatorWriter& writer, const LayerSettings& layer);

}  // namespace llmtrain
