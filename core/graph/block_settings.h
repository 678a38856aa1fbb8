// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "core/recipe/recipe.h"

namespace llmtrain {

// What a block computes, by its kind. The builder makes settings from a recipe once; modules, operators and layouts
// read those of their block alone, so that blocks of a graph need not be equal. Functions of a kind are overloads for
// its settings, found by std::visit: a kind that lacks one does not compile.
//
// Each kind says as constants
//   reads_in_backward: whether its backward reads its weights again
//   runs_again:        whether `memory.recompute` may run its forward again as a whole
// and the width of the rows that it passes on as hidden_size.

struct NormSettings {
  NormKind kind = NormKind::layernorm;
  double epsilon = 1e-5;

  bool operator==(const NormSettings&) const = default;
};

// Rotary positions of queries and keys.
struct RopeSettings {
  std::int64_t positions = 0;  // that may occur: 0 up to this
  std::int64_t head_dim = 0;
  double theta = 10000;
  std::optional<RopeScalingRecipe> scaling{};

  bool operator==(const RopeSettings&) const = default;
};

// Causal self-attention with grouped queries.
struct AttentionSettings {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::optional<double> head_norm_epsilon{};  // of root-mean-square norms of each query and key; none: no such norms
  std::optional<RopeSettings> rope{};
  double dropout = 0;  // of probabilities

  bool operator==(const AttentionSettings&) const = default;
};

// A dense network, or a mixture of experts in its place.
struct FeedForwardSettings {
  Activation activation = Activation::gelu_tanh;
  std::int64_t width = 0;  // of the dense network
  std::optional<MixtureOfExpertsRecipe> experts{};

  bool operator==(const FeedForwardSettings&) const = default;
};

// Rows of a table by the tokens' ids, and of another one by their positions.
struct EmbeddingSettings {
  static constexpr bool reads_in_backward = true;
  static constexpr bool runs_again = false;

  std::int64_t hidden_size = 0;
  bool has_positions = false;
  double dropout = 0;

  bool operator==(const EmbeddingSettings&) const = default;
};

// A pre-norm transformer layer.
struct LayerSettings {
  static constexpr bool reads_in_backward = true;
  static constexpr bool runs_again = true;

  std::int64_t index = 0;  // among the model's layers, by which metrics, caches and foreign files count them
  std::int64_t hidden_size = 0;
  NormSettings norm{};
  double dropout = 0;  // of what both halves add to the residual stream
  AttentionSettings attention{};
  FeedForwardSettings feed_forward{};
  bool drops_tokens = false;  // may see a part of each sequence alone (core/graph/marks/token_dropping.h)

  bool operator==(const LayerSettings&) const = default;
};

// A norm, the projection to the vocabulary and the loss. Its forward makes the gradients.
struct HeadSettings {
  static constexpr bool reads_in_backward = false;
  static constexpr bool runs_again = false;

  std::int64_t hidden_size = 0;
  std::int64_t vocabulary = 0;
  NormSettings norm{};

  bool operator==(const HeadSettings&) const = default;
};

using BlockSettings = std::variant<EmbeddingSettings, LayerSettings, HeadSettings>;

}  // namespace llmtrain
