// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/declared_scalars.h"

#include <cstddef>

#include "core/graph/fp8_products.h"
#include "core/graph/routing_sums.h"

namespace llmtrain {
namespace {

void declare_experts(const Partition& partition, ScalarTable& table) {
  if (!partition.recipe.model.moe) return;
  table.declare(std::string(scalar_names::routing), Combination::sum, RoutingValues().size());
  if (partition.recipe.log.routing)
    for (const Block& block : partition.graph->blocks)
      if (const MixtureOfExpertsRecipe* const moe = block.experts())
        table.declare(scalar_names::chosen_experts(block.layer()->index), Combination::sum,
                      static_cast<std::size_t>(moe->experts));
  if (const std::size_t buckets = partition.exchange.of_buckets.size(); buckets > 0)
    table.declare(std::string(scalar_names::expert_exchanges), Combination::sum, 2 * buckets);
  if (partition.mesh.switches_experts) table.declare(std::string(scalar_names::split_seconds), Combination::sum);
}

void declare_fp8(const Partition& partition, ScalarTable& table) {
  const PrecisionRecipe& precision = partition.recipe.precision;
  if (stores_fp8(precision.fp8_level)) {
    table.declare(std::string(scalar_names::fp8_gradients), Combination::sum);
    table.declare(std::string(scalar_names::saturated_gradients), Combination::sum);
  }
  if (precision.delays_scales())
    table.declare(std::string(scalar_names::fp8_magnitudes), Combination::maximum,
                  fp8_operands * fp8_products(*partition.graph).size());
  if (precision.gradients_may_fall_back())
    table.declare(std::string(scalar_names::saturated_shares), Combination::maximum,
                  fp8_matrices(*partition.graph).size());
}

}  // namespace

std::string scalar_names::loss(const LossTerm& term) { return "loss of the term " + term.name; }

std::string scalar_names::chosen_experts(std::int64_t layer) {
  return "chosen experts of layer " + std::to_string(layer);
}

ScalarTable declared_scalars(const Partition& partition) {
  ScalarTable table;
  for (const LossTerm& term : partition.graph->row_losses()) table.declare(scalar_names::loss(term), Combination::sum);
  table.declare(std::string(scalar_names::gradient_squares), Combination::sum);
  table.declare(std::string(scalar_names::stop_request), Combination::sum);
  table.declare(std::string(scalar_names::own_seconds), Combination::gather);
  declare_experts(partition, table);
  declare_fp8(partition, table);
  return table;
}

}  // namespace llmtrain
