// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/graph/experts.h"
#include "parallel/plan/cost/block_cost.h"
#include "parallel/plan/cost/expert_traffic.h"

namespace llmtrain {
namespace {

// The router's product and softmax, in 32 bits as its gradients need it.
PassPair router_cost(const CostContext& context, const MixtureOfExpertsRecipe& moe) {
  const LayerShape& shape = context.shape;
  const auto experts = static_cast<double>(moe.experts);
  PassPair cost;
  cost.forward.work = context.roofline.product({shape.tokens, experts, shape.hidden});
  cost.backward.work = context.roofline.product({shape.tokens, shape.hidden, experts}) +
                       context.roofline.product({experts, shape.hidden, shape.tokens});
  cost += elementwise_cost(context, 4 * shape.tokens * experts, 6 * shape.tokens * experts);
  return cost;
}

}  // namespace

ExpertTraffic expert_traffic(const Recipe& recipe, const Mesh& mesh) {
  const MixtureOfExpertsRecipe& moe = *recipe.model.moe;
  const std::int64_t tokens = recipe.batch.micro * recipe.batch.sequence_length / mesh.context;
  ExpertTraffic traffic;
  traffic.places = static_cast<double>(moe.experts) * static_cast<double>(expert_capacity(moe, tokens));
  traffic.local_experts = static_cast<double>(moe.experts) / static_cast<double>(mesh.expert);
  const double element = recipe.precision.compute == DataType::fp32 ? 4 : 2;
  traffic.exchange_bytes = traffic.places * static_cast<double>(recipe.model.hidden_size) * element;
  return traffic;
}

PassPair experts_cost(const CostContext& context) {
  const MixtureOfExpertsRecipe& moe = *context.recipe.model.moe;
  const LayerShape& shape = context.shape;
  const ExpertTraffic traffic = expert_traffic(context.recipe, context.mesh);
  const double copied = (2 * traffic.places + shape.tokens) * shape.hidden;
  PassPair cost = router_cost(context, moe);
  cost += elementwise_cost(context, copied + traffic.places * shape.hidden, copied + traffic.places * shape.hidden);
  const double width = static_cast<double>(moe.ffn_hidden_size) / static_cast<double>(context.mesh.expert_tensor);
  cost += feed_forward_cost(context, traffic.places / traffic.local_experts, width, traffic.local_experts);
  const double exchange = context.collectives.all_to_all(traffic.exchange_bytes, expert_group(context.mesh));
  cost.forward.communication_seconds += 2 * exchange;
  cost.backward.communication_seconds += 2 * exchange;
  if (context.mesh.expert_tensor > 1) {
    RankGroup group = tensor_group(context.mesh);
    group.ranks = context.mesh.expert_tensor;
    group.inside_node = std::min(group.inside_node, group.ranks);
    const double reduction = context.collectives.all_reduce(traffic.exchange_bytes, group);
    cost.forward.communication_seconds += reduction;
    cost.backward.communication_seconds += reduction;
  }
  if (moe.shared_experts > 0) {
    const auto shared = static_cast<double>(moe.shared_experts * moe.ffn_hidden_size);
    cost += feed_forward_cost(context, shape.tokens, shared / static_cast<double>(context.mesh.tensor));
    cost += tensor_parallel_cost(context);
  }
  return cost;
}

}  // namespace llmtrain
