// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/policies.h"

#include "apps/llmtrain/machine/machine_profile.h"
#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/plan/recipe_file.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "parallel/plan/planner/memory_limit.h"
#include "parallel/plan/policies/policy_prices.h"
#include "parallel/plan/policies/policy_report.h"

namespace llmtrain::app {

int show_policies(const std::string& file, Recipe recipe, double limit, const PlanOutputs& outputs) {
  measure_machine(recipe);
  const ClusterProfile profile = profile_of(recipe);
  if (!(limit > 0))
    throw Error(ExitCode::bad_recipe,
                "--policies: a limit of nothing; give a share of the device's memory, up to 1, or bytes");
  if (limit <= 1 && profile.device.memory_bytes <= 0)
    throw Error(ExitCode::bad_recipe, "--policies: a share of the device's memory, which profile " + profile.name +
                                          " does not state; give bytes, as in --policies 12e9");
  recipe.memory.limit = limit;
  const PolicyTable table = named_with_file(file, [&] {
    const LimitedDevice limited = as_device(recipe, profile);
    return price_policies(limited.recipe, profile, devices_per_node(recipe, profile),
                          limited.cluster.device.memory_bytes);
  });
  outputs.json ? write_json(policies_json(table)) : write_result(policies_text(table, style_of_output()));
  return static_cast<int>(ExitCode::done);
}

}  // namespace llmtrain::app
