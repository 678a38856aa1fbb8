// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/block_cost.h"

namespace llmtrain {
namespace {

// One kernel; causal attention leaves out the masked half. The backward computes five products where the forward
// computes two (Dao, arXiv 2307.08691).
PassPair fused_attention(const CostContext& context) {
  const LayerShape& shape = context.shape;
  const double flops = 2 * shape.tokens * shape.sequence_length * shape.query_width;
  PassPair cost;
  cost.forward.work = context.roofline.attention_forward(flops);
  cost.backward.work = context.roofline.attention_backward(2.5 * flops);
  return cost;
}

// Scores through memory: two products for each head, between them scale, mask and softmax in one kernel and dropout
// in another.
PassPair stored_attention(const CostContext& context) {
  const LayerShape& shape = context.shape;
  const double queries = shape.sequence_length / shape.context, keys = shape.sequence_length;
  const double matrices = shape.sequences * shape.heads;
  const double scores = matrices * queries * keys;
  const double element = context.roofline.element_bytes();
  const Roofline& roofline = context.roofline;
  const Work make_scores = roofline.product({queries, keys, shape.head_dim, matrices});
  const Work use_scores = roofline.product({queries, shape.head_dim, keys, matrices});
  PassPair cost;
  cost.forward.work = make_scores + use_scores;
  cost.backward.work = (make_scores + use_scores) * 2;
  cost.forward.work += roofline.pass(context.constants.softmax_forward * 2 * element * scores);
  cost.backward.work += roofline.pass(context.constants.softmax_backward * 3 * element * scores);
  if (shape.drops) {
    cost.forward.work += roofline.pass((2 * element + 1) * scores);
    cost.backward.work += roofline.pass((2 * element + 1) * scores);
  }
  return cost;
}

// Keys and values of all positions come together before attention, and again before its backward, whose gradients are
// summed into the ranks that have the tokens.
PassPair exchange_cost(const CostContext& context) {
  const RankGroup group = context_group(context.mesh);
  PassPair cost;
  if (group.ranks <= 1) return cost;
  const double bytes = gathered_keys_bytes(context);
  cost.forward.communication_seconds = context.collectives.all_gather(bytes, group);
  cost.backward.communication_seconds =
      cost.forward.communication_seconds + context.collectives.reduce_scatter(bytes, group);
  return cost;
}

}  // namespace

double gathered_keys_bytes(const CostContext& context) {
  const LayerShape& shape = context.shape;
  return 2 * shape.tokens * shape.context * shape.key_width * context.roofline.element_bytes();
}

PassPair attention_cost(const CostContext& context) {
  PassPair cost = context.shape.fused_attention ? fused_attention(context) : stored_attention(context);
  cost += exchange_cost(context);
  return cost;
}

}  // namespace llmtrain
