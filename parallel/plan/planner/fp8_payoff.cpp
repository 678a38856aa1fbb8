// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/fp8_payoff.h"

#include <fmt/format.h>

#include "core/base/units.h"
#include "parallel/plan/planner/planner.h"

namespace llmtrain {

std::optional<std::string> fp8_does_not_pay(const Plan& plan, const ClusterProfile& profile) {
  if (plan.report.recipe.precision.fp8_level == Fp8Level::off) return std::nullopt;
  Recipe recipe = plan.report.recipe;
  recipe.precision.fp8_level = Fp8Level::off;
  const PlanReport without = make_plan(recipe, profile).report;
  const double with_seconds = plan.report.step.seconds;
  if (without.step.seconds > with_seconds || (plan.report.fits && !without.fits)) return std::nullopt;
  return fmt::format("precision.fp8_level: FP8 does not pay off: {} per step with it, {} with \"off\"",
                     format_duration(with_seconds), format_duration(without.step.seconds));
}

}  // namespace llmtrain
