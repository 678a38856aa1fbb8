// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {
namespace {

// Keys that a fused kernel multiplies with a query of a window: that it computes blocks of queries and keys, whole
// ones, adds the keys of a block.
double computed_window(const Operator& item) {
  constexpr double block = 128;  // FlashAttention's rows of queries (Dao, arXiv 2307.08691)
  return std::min(item.product.columns, item.window + block);
}

}  // namespace

AttentionSizes attention_sizes(const Operator& item) {
  const auto& [queries, keys, width, heads] = item.product;
  // A query of causal attention sees half the keys in the mean.
  const double alike = item.window > 0 ? std::min(keys, 2 * computed_window(item)) : keys;
  return {alike, heads, item.heads_per_key, width};
}

FusedAttentionFlops fused_attention_flops(const Operator& item) {
  // item.flops counts the whole square of scores.
  double flops = item.is_causal ? item.flops / 2 : item.flops;
  if (item.window > 0)
    flops *=
        window_share(item.product.columns, computed_window(item)) / window_share(item.product.columns, item.window);
  if (item.value_size == 0) return {flops, 2.5 * flops};
  // Scores again, and the gradients of queries and keys, in the size of a key; those of probabilities and values in
  // that of a value.
  const double key = item.product.inner, value = item.value_size;
  return {flops, flops * (3 * key + 2 * value) / (key + value)};
}

}  // namespace llmtrain
