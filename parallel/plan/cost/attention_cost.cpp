// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

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

// Keys and values go around the ring while attention works on those at hand; the backward's gradients go with them.
void add_ring(const CostContext& context, PassPair& cost) {
  const LayerShape& shape = context.shape;
  const RankGroup group = context_group(context.mesh);
  if (group.ranks <= 1) return;
  const auto hops = static_cast<double>(group.ranks - 1);
  const double bytes = 2 * shape.tokens * shape.key_width * context.roofline.element_bytes();
  const double forward = hops * context.collectives.point_to_point(bytes, group);
  cost.forward.communication_seconds += std::max(0.0, forward - cost.forward.work.seconds);
  cost.backward.communication_seconds += std::max(0.0, 2 * forward - cost.backward.work.seconds);
}

}  // namespace

PassPair attention_cost(const CostContext& context) {
  PassPair cost = context.shape.fused_attention ? fused_attention(context) : stored_attention(context);
  add_ring(context, cost);
  return cost;
}

}  // namespace llmtrain
