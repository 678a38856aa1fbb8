// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "core/recipe/hints.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

// Far above any machine.
constexpr double most_ranks = 1 << 24;
constexpr const char* too_many_ranks = "makes more than 2^24 ranks";

// The product of the explicit degrees. In floating point, which no degrees overflow.
double product_of_degrees(const ParallelRecipe& parallel) {
  return static_cast<double>(ranks_per_replica(parallel)) * static_cast<double>(parallel.data.value_or(1));
}

Verdict check_degrees(const Recipe& recipe, const Known&) {
  if (product_of_degrees(recipe.parallel) <= most_ranks) return {};
  return Refusal{too_many_ranks, "tensor × pipeline × context × data must be at most 16777216"};
}

Verdict check_launch(const Recipe& recipe, const Known&) {
  if (!recipe.launch.ranks) return {};
  const auto ranks = *recipe.launch.ranks, replica = ranks_per_replica(recipe.parallel);
  // With an open data degree any number of whole replicas is right.
  if (!recipe.parallel.data) return must_be_multiple(ranks, replica, "parallel.tensor × pipeline × context");
  if (ranks % replica == 0 && ranks / replica == *recipe.parallel.data) return {};
  return Refusal{std::to_string(ranks) + " does not match parallel",
                 "must be parallel.tensor × pipeline × context × data",
                 fmt::format("{:.0f}", product_of_degrees(recipe.parallel))};
}

// If launch.ranks or the degrees determine the ranks, the earlier rules have checked them.
Verdict check_replicas(const Recipe& recipe, const Known& known) {
  if (known.world == nullptr) return {};
  const auto [ranks, devices] = *known.world;
  const auto nodes = recipe.cluster.nodes, replica = ranks_per_replica(recipe.parallel);
  if (static_cast<double>(ranks) > most_ranks)
    return Refusal{too_many_ranks, "nodes × devices_per_node must be at most 16777216"};
  if (ranks % replica == 0) return {};
  return Refusal{fmt::format("{} × {} devices is not a multiple of {}", nodes, devices, replica),
                 "nodes × devices_per_node must be a multiple of parallel.tensor × pipeline × context",
                 std::to_string(nearest_multiple(nodes, replica / std::gcd(replica, devices)))};
}

Verdict check_full_nodes(const Recipe&, const Known& known) {
  if (known.world == nullptr) return {};
  const auto [ranks, devices] = *known.world;
  // Ranks of one node may leave devices idle; several nodes are all full.
  if (ranks <= devices || ranks % devices == 0) return {};
  return Refusal{fmt::format("{} ranks do not fill nodes of {} devices", ranks, devices), "must divide the ranks",
                 std::to_string(nearest_divisor(devices, ranks))};
}

// One node is the default, and then means as many as the ranks need.
Verdict check_nodes(const Recipe& recipe, const Known& known) {
  const auto nodes = recipe.cluster.nodes;
  if (known.world == nullptr || nodes == 1) return {};
  const auto [ranks, devices] = *known.world;
  const auto needed = std::max<std::int64_t>(1, ranks / devices);
  if (nodes == needed) return {};
  return Refusal{fmt::format("{} × {} devices do not match the {} ranks", nodes, devices, ranks),
                 "must be the ranks ÷ devices_per_node", std::to_string(needed)};
}

}  // namespace

std::int64_t ranks_per_replica(const ParallelRecipe& parallel) {
  return parallel.tensor * parallel.pipeline * parallel.context;
}

std::optional<double> ranks_asked_for(const Recipe& recipe) {
  if (recipe.launch.ranks) return static_cast<double>(*recipe.launch.ranks);
  if (recipe.parallel.data) return product_of_degrees(recipe.parallel);
  return std::nullopt;
}

World world_of(const Recipe& recipe, std::int64_t devices_per_node) {
  // Fits int64: converting a larger double would be undefined. The rules refuse far smaller numbers.
  constexpr double most = 1e18;
  const double devices = static_cast<double>(recipe.cluster.nodes) * static_cast<double>(devices_per_node);
  const double ranks = std::min(most, ranks_asked_for(recipe).value_or(devices));
  return {.ranks = static_cast<std::int64_t>(ranks), .devices_per_node = devices_per_node};
}

// check_degrees comes first, so that impossible degrees are reported once and not by every rule that reads them.
std::vector<Rule> world_rules() {
  const std::vector<std::string_view> degrees = {"/parallel/tensor", "/parallel/pipeline", "/parallel/context",
                                                 "/parallel/data"};
  auto all = degrees;
  all.insert(all.end(), {"/launch/ranks", "/cluster/nodes", "/cluster/devices_per_node"});
  return {
      {"/parallel", degrees, check_degrees},   {"/launch/ranks", degrees, check_launch},
      {"/cluster/nodes", all, check_replicas}, {"/cluster/devices_per_node", all, check_full_nodes},
      {"/cluster/nodes", all, check_nodes},
  };
}

}  // namespace llmtrain
