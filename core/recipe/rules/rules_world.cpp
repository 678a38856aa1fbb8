// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "core/recipe/hints.h"
#include "core/recipe/rules/rules.h"
#include "core/recipe/schedules/batch_sizes.h"

namespace llmtrain {
namespace {

// Far above any machine.
constexpr double most_ranks = 1 << 24;
constexpr const char* too_many_ranks = "makes more than 2^24 ranks";

// The product of the explicit degrees. In floating point, which no degrees overflow.
double product_of_degrees(const ParallelRecipe& parallel) {
  return static_cast<double>(ranks_per_replica(parallel)) * static_cast<double>(parallel.data.value_or(1));
}

bool is_legal(const Recipe& recipe, const World& world) {
  const Known known{.world = &world};
  return std::ranges::none_of(all_rules(), [&](const Rule& rule) { return rule.check(recipe, known).has_value(); });
}

// The numbers of data ranks that share the micro-batches evenly, the nearest to `wanted` first. None where there are
// more micro-batches than any machine's ranks, or where a value is out of its range, which has an error of its own.
std::vector<std::int64_t> even_data_ranks(const BatchRecipe& batch, std::int64_t wanted) {
  if (batch.micro < 1 || static_cast<double>(batch.global) > most_ranks * static_cast<double>(batch.micro)) return {};
  const std::int64_t micros = common_batch(batch) / batch.micro;
  std::vector<std::int64_t> found;
  for (std::int64_t small = 1; small * small <= micros; ++small)
    if (micros % small == 0) found.insert(found.end(), {small, micros / small});
  const auto distance = [&](std::int64_t data) { return std::abs(data - wanted); };
  std::ranges::stable_sort(found, {}, distance);
  return found;
}

// The settings with which the recipe trains on `ranks` ranks, or on the nearest number that its batch and its other
// degrees allow; or empty. As many devices per node as `known`, or as the recipe's own numbers imply.
std::string settings_for(const Recipe& recipe, std::int64_t ranks, const Known& known) {
  const std::int64_t replica = ranks_per_replica(recipe.parallel), nodes = recipe.cluster.nodes;
  if (replica < 1 || nodes < 1 || product_of_degrees(recipe.parallel) > most_ranks) return "";
  const auto own = static_cast<std::int64_t>(product_of_degrees(recipe.parallel));
  const std::int64_t devices = known.world != nullptr
                                   ? known.world->devices_per_node
                                   : recipe.cluster.devices_per_node.value_or(std::max<std::int64_t>(1, own / nodes));
  for (const std::int64_t data : even_data_ranks(recipe.batch, ranks / replica)) {
    Recipe other = recipe;
    other.parallel.data = data;
    if (recipe.launch.ranks) other.launch.ranks = data * replica;
    // One node means as many as the ranks need.
    if (nodes > 1) other.cluster.nodes = std::max<std::int64_t>(1, data * replica / devices);
    if (!is_legal(other, {.ranks = data * replica, .devices_per_node = devices})) continue;
    std::string settings;
    const auto set = [&](const char* key, std::int64_t value) {
      settings += fmt::format("{}--set {}={}", settings.empty() ? "" : " ", key, value);
    };
    if (other.launch.ranks != recipe.launch.ranks) set("launch.ranks", data * replica);
    if (data != recipe.parallel.data) set("parallel.data", data);
    if (other.cluster.nodes != nodes) set("cluster.nodes", other.cluster.nodes);
    return settings;
  }
  return "";
}

std::string settings_for_launch(const Recipe& recipe, const Known& known) {
  return settings_for(recipe, *recipe.launch.ranks, known);
}

// Which of the two numbers was meant is not known; only explicit degrees could follow the nodes.
std::string settings_for_nodes(const Recipe& recipe, const Known& known) {
  return recipe.launch.ranks ? std::string()
                             : settings_for(recipe, recipe.cluster.nodes * known.world->devices_per_node, known);
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
                 "must be parallel.tensor × pipeline × context × data", "", settings_for_launch};
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
                 "must be the ranks ÷ devices_per_node", fmt::format("--set cluster.nodes={}", needed),
                 settings_for_nodes};
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

std::optional<std::int64_t> data_ranks(const Recipe& recipe, const Known& known) {
  if (recipe.parallel.data || known.world == nullptr) return recipe.parallel.data;
  // At least 1, for worlds that are too small: other rules report those.
  return std::max<std::int64_t>(1, known.world->ranks / ranks_per_replica(recipe.parallel));
}

std::vector<std::string_view> keys_of_stated_world(std::vector<std::string_view> keys) {
  keys.insert(keys.end(),
              {"/parallel/tensor", "/parallel/pipeline", "/parallel/context", "/parallel/data", "/launch/ranks"});
  return keys;
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
