// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/kept_stages.h"

#include <cstdint>
#include <utility>

#include "parallel/plan/planner/offload_choices.h"

namespace llmtrain {

KeptStages keep_more_stages(Recipe recipe, double seconds, const Mesh& mesh, const SecondsWithRoom& step) {
  KeptStages best{std::move(recipe), seconds};
  if (best.recipe.memory.offload.optimizer != StatesPlace::host) return best;
  Recipe staged = in_stages(best.recipe, mesh);
  std::int64_t enough = staged.memory.offload.resident_stages, most = staged.pipeline.loops - 1;
  while (enough < most) {
    const std::int64_t middle = enough + (most - enough + 1) / 2;
    staged.memory.offload.resident_stages = middle;
    if (!keeps_rules(staged)) break;
    const std::optional<double> taken = step(staged);
    if (!taken) {
      most = middle - 1;
      continue;
    }
    enough = middle;
    if (*taken < best.seconds) best = {staged, *taken};
  }
  return best;
}

}  // namespace llmtrain
