// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/fp8_payoff.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/units.h"
#include "core/graph/marks/name_patterns.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/planner/planner.h"

namespace llmtrain {
namespace {

std::string warning_of(const Fp8Payoff& payoff) {
  const MatrixProduct& product = payoff.product;
  return fmt::format(
      "precision.fp8_level: {} ({:.0f} × {:.0f} for {:.0f} rows): FP8 does not pay off: {} per "
      "micro-batch with its casts, {} without; precision.fp8_products \"auto\" leaves it out",
      payoff.name, product.columns, product.inner, product.rows, format_duration(payoff.fp8_seconds),
      format_duration(payoff.seconds));
}

// With the first weights by their places in the block.
std::vector<Fp8Payoff> payoffs_of(const PricedLayout& priced, std::size_t block) {
  std::vector<Fp8Payoff> payoffs;
  for (const Operator& item : priced.operators.of(block)) {
    if (!item.matrix) continue;
    Operator plain = item, cast = item;
    plain.uses_fp8 = false;
    cast.uses_fp8 = true;
    payoffs.push_back({.name = item.name,
                       .product = item.product,
                       .matrix = *item.matrix,
                       .seconds = product_seconds(priced, plain),
                       .fp8_seconds = product_seconds(priced, cast),
                       .uses_fp8 = item.uses_fp8});
  }
  return payoffs;
}

// "layers.*.ffn.up.weight" of "layers.3.ffn.up.weight".
std::string for_all_layers(const Parameter& matrix) {
  const std::string own = matrix.name.substr(0, matrix.name.size() - matrix.local_name.size());
  const std::size_t digits = own.find_first_of("0123456789");
  return digits == own.npos ? matrix.name : own.substr(0, digits) + "*." + matrix.local_name;
}

bool matches_alone(const Graph& graph, const std::set<std::size_t>& matrices, const std::string& pattern) {
  for (std::size_t index = 0; index < graph.parameters.size(); ++index)
    if (graph.parameters[index].takes_fp8() && !matrices.contains(index) &&
        matches(pattern, graph.parameters[index].name))
      return false;
  return true;
}

// The matrices by their names, those of all layers together where that matches no other one that is in FP8.
std::vector<std::string> patterns_of(const Graph& graph, const std::set<std::size_t>& matrices) {
  std::map<std::string, bool> together;  // by the pattern for all layers
  std::vector<std::string> patterns;
  for (const std::size_t index : matrices) {
    const Parameter& matrix = graph.parameters[index];
    const auto [found, is_new] = together.try_emplace(for_all_layers(matrix), false);
    if (is_new) found->second = matches_alone(graph, matrices, found->first);
    if (is_new || !found->second) patterns.push_back(found->second ? found->first : matrix.name);
  }
  return patterns;
}

}  // namespace

std::optional<std::string> fp8_does_not_pay(const Plan& plan, const ClusterProfile& profile) {
  const bool multiplies = multiplies_fp8(plan.report.recipe.precision.fp8_level);
  if (!multiplies || std::ranges::none_of(plan.layout->graph().parameters, &Parameter::takes_fp8)) return std::nullopt;
  Recipe recipe = plan.report.recipe;
  recipe.precision.fp8_level = Fp8Level::off;
  recipe.precision.stochastic_rounding = false;  // of what is stored in small types
  const PlanReport without = make_plan(recipe, profile).report;
  const double with_seconds = plan.report.step.seconds;
  if (without.step.seconds > with_seconds || (plan.report.fits && !without.fits)) return std::nullopt;
  return fmt::format("precision.fp8_level: FP8 does not pay off: {} per step with it, {} with \"off\"",
                     format_duration(with_seconds), format_duration(without.step.seconds));
}

std::vector<Fp8Payoff> fp8_payoffs(const PricedLayout& priced) {
  const Graph& graph = priced.graph();
  std::vector<Fp8Payoff> all;
  if (!priced.setting().numbers.uses_fp8()) return all;
  BlockCache<std::vector<Fp8Payoff>> known(graph);
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    for (Fp8Payoff payoff : known.of(block, [&] { return payoffs_of(priced, block); })) {
      payoff.matrix = graph.blocks[block].parameters[payoff.matrix];
      all.push_back(std::move(payoff));
    }
  }
  return all;
}

std::vector<PlannedProduct> planned_products(const PricedLayout& priced) {
  std::vector<PlannedProduct> products;
  for (const Fp8Payoff& payoff : fp8_payoffs(priced)) {
    const auto& [rows, columns, inner, batch] = payoff.product;
    PlannedProduct product{.name = payoff.name,
                           .rows = rows,
                           .columns = columns,
                           .inner = inner,
                           .matrices = batch,
                           .seconds = payoff.seconds,
                           .fp8_seconds = payoff.fp8_seconds,
                           .uses_fp8 = payoff.uses_fp8};
    const auto same =
        std::ranges::find_if(products, [&](const PlannedProduct& other) { return other.is_like(product); });
    ++(same == products.end() ? products.emplace_back(product) : *same).layers;
  }
  const bool follows = priced.recipe().precision.plans_products();
  if (!follows && std::ranges::all_of(products, &PlannedProduct::uses_fp8)) return {};
  return products;
}

std::vector<std::string> products_without_fp8_gain(const Plan& plan, const ClusterProfile& profile) {
  const Partition& partition = plan.layout->partition();
  if (small_peak_flops(profile, partition.recipe.precision) == 0) return {};
  const ClusterProfile shared = share_devices(profile, partition.mesh);
  const PricedLayout priced(partition, shared);
  std::vector<std::string> warnings;
  for (const Fp8Payoff& payoff : fp8_payoffs(priced)) {
    if (!payoff.uses_fp8 || payoff.pays()) continue;
    // Layers share most of their products.
    std::string warning = warning_of(payoff);
    if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(std::move(warning));
  }
  return warnings;
}

Recipe settle_fp8_products(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node) {
  if (!recipe.precision.plans_products()) return recipe;
  Recipe settled = recipe;
  settled.precision.fp8_products = Fp8Products::all;
  const Partition whole = partition_for(settled, cluster, devices_per_node);
  const ClusterProfile shared = share_devices(cluster, whole.mesh);
  const PricedLayout priced(whole, shared);
  std::set<std::size_t> left;
  for (const Fp8Payoff& payoff : fp8_payoffs(priced))
    if (payoff.uses_fp8 && !payoff.pays()) left.insert(payoff.matrix);
  for (std::string& pattern : patterns_of(*whole.graph, left))
    settled.precision.high_precision.parameters.push_back(std::move(pattern));
  return settled;
}

}  // namespace llmtrain
