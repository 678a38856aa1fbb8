// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/data_parallel_cost.h"

#include <algorithm>
#include <cstdint>

#include "parallel/plan/flat_shards.h"

namespace llmtrain {
namespace {

double bytes_of(DataType type) { return type == DataType::fp32 ? 4 : 2; }

double padding(double elements, const RankGroup& shards) {
  const auto whole = static_cast<std::int64_t>(elements);
  return static_cast<double>(FlatShards{whole, shards.ranks}.padded() - whole);
}

}  // namespace

DataParallelTraffic data_parallel_traffic(const Recipe& recipe, const Mesh& mesh, const ParameterShare& share) {
  const Fp8Level level = recipe.precision.fp8_level;
  const double gradient = bytes_of(recipe.precision.gradients), weight = bytes_of(recipe.precision.compute);
  const double linear_gradient = level == Fp8Level::off ? gradient : 1;
  const double linear_weight = level == Fp8Level::o3 ? 1 : weight;
  const bool sharded = recipe.parallel.zero_stage > 0;
  const double other = share.other + (sharded ? padding(share.linear + share.other, shard_group(mesh)) : 0);
  const double experts = share.experts + (sharded ? padding(share.experts, expert_data_group(mesh)) : 0);
  DataParallelTraffic traffic;
  traffic.gradient_bytes = share.linear * linear_gradient + other * gradient;
  traffic.expert_gradient_bytes = experts * linear_gradient;
  traffic.weight_bytes = share.linear * linear_weight + other * weight;
  traffic.expert_weight_bytes = experts * linear_weight;
  return traffic;
}

double reduction_seconds(const Recipe& recipe, const Mesh& mesh, const CollectiveCost& collectives,
                         const DataParallelTraffic& traffic) {
  if (recipe.parallel.zero_stage == 0) {
    return collectives.all_reduce(traffic.gradient_bytes, data_group(mesh)) +
           collectives.all_reduce(traffic.expert_gradient_bytes, expert_data_group(mesh));
  }
  const RankGroup shards = shard_group(mesh), replicas = replica_group(mesh);
  const double part = traffic.gradient_bytes / static_cast<double>(shards.ranks);
  const auto scatter = [&](double bytes, const RankGroup& group) {
    // ZeRO-3 scatters by block, as it gathers.
    return recipe.parallel.zero_stage == 3 ? collectives.gather_weights(bytes, group)
                                           : collectives.reduce_scatter(bytes, group);
  };
  return scatter(traffic.gradient_bytes, shards) + collectives.all_reduce(part, replicas) +
         scatter(traffic.expert_gradient_bytes, expert_data_group(mesh));
}

double gather_seconds(const Recipe& recipe, const Mesh& mesh, const CollectiveCost& collectives,
                      const DataParallelTraffic& traffic) {
  if (recipe.parallel.zero_stage == 0) return 0;
  const RankGroup shards = shard_group(mesh), experts = expert_data_group(mesh);
  if (recipe.parallel.zero_stage < 3) {
    return collectives.all_gather(traffic.weight_bytes, shards) +
           collectives.all_gather(traffic.expert_weight_bytes, experts);
  }
  return collectives.gather_weights(traffic.weight_bytes, shards) +
         collectives.gather_weights(traffic.expert_weight_bytes, experts);
}

double exposed_beside_pass(double collective_seconds, double pass_seconds, double buckets, double slowdown) {
  if (buckets <= 1) return collective_seconds;
  const double early = (buckets - 1) / buckets;
  const double hidden = std::min(collective_seconds * early, pass_seconds * early / (1 - slowdown));
  return collective_seconds - hidden + slowdown * hidden;
}

}  // namespace llmtrain
