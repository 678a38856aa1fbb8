// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/base/units.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/planner/planner.h"

namespace llmtrain {
namespace {

std::string warning_of(const Operator& item, double with, double without) {
  const MatrixProduct& product = item.product;
  return fmt::format(
      "precision.fp8_level: {} ({:.0f} × {:.0f} for {:.0f} rows): FP8 does not pay off: {} per "
      "micro-batch with its casts, {} without; precision.high_precision can leave it out",
      item.name, product.columns, product.inner, product.rows, format_duration(with), format_duration(without));
}

}  // namespace

std::optional<std::string> fp8_does_not_pay(const Plan& plan, const ClusterProfile& profile) {
  if (!multiplies_fp8(plan.report.recipe.precision.fp8_level)) return std::nullopt;
  Recipe recipe = plan.report.recipe;
  recipe.precision.fp8_level = Fp8Level::off;
  const PlanReport without = make_plan(recipe, profile).report;
  const double with_seconds = plan.report.step.seconds;
  if (without.step.seconds > with_seconds || (plan.report.fits && !without.fits)) return std::nullopt;
  return fmt::format("precision.fp8_level: FP8 does not pay off: {} per step with it, {} with \"off\"",
                     format_duration(with_seconds), format_duration(without.step.seconds));
}

std::vector<std::string> products_without_fp8_gain(const Plan& plan, const ClusterProfile& profile) {
  const Partition& partition = plan.layout->partition();
  if (!multiplies_fp8(partition.recipe.precision.fp8_level) || profile.device.peak_flops.fp8 == 0) return {};
  const ClusterProfile shared = share_devices(profile, partition.mesh);
  const PricedLayout priced(partition, shared);
  std::vector<std::string> warnings;
  for (std::size_t block = 0; block < partition.graph->blocks.size(); ++block) {
    if (partition.graph->blocks[block].alike != block) continue;
    for (const Operator& item : priced.operators.of(block)) {
      if (!item.uses_fp8) continue;
      Operator plain = item;
      plain.uses_fp8 = false;
      const double with = product_seconds(priced, item), without = product_seconds(priced, plain);
      if (with < without) continue;
      // Layers that differ otherwise may share a product.
      std::string warning = warning_of(item, with, without);
      if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(std::move(warning));
    }
  }
  return warnings;
}

}  // namespace llmtrain
