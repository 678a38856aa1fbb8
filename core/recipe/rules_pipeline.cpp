// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "core/recipe/pipeline_schedules.h"
#include "core/recipe/rules.h"

namespace llmtrain {
namespace {

std::int64_t stages(const Recipe& recipe) { return recipe.parallel.pipeline * recipe.pipeline.loops; }

void check_schedule(const RuleCheck& check) {
  const auto schedule = check.recipe.pipeline.schedule;
  const auto loops = check.recipe.pipeline.loops;
  const auto ranks = check.recipe.parallel.pipeline;
  if (ranks == 1 || loops == 1 || !check.are_clean({"/pipeline/schedule", "/pipeline/loops", "/parallel/pipeline"})) {
    return;
  }
  if (!takes_loops(schedule, ranks, loops)) {
    return check.refuse("/pipeline/loops", std::to_string(loops) + " does not go with this schedule",
                        "gpipe and 1f1b run one stage a rank; breadth_first and interleaved run more", "1");
  }
  const auto& data = check.recipe.parallel.data;
  if (micro_batch_group(schedule, ranks, loops) == 1 || !data) return;
  if (!check.are_clean({"/batch/global", "/batch/micro", "/parallel/data"})) return;
  const auto step = check.recipe.batch.micro * *data * ranks;
  check.multiple("/batch/global", check.recipe.batch.global, step,
                 "batch.micro × parallel.data × parallel.pipeline, as interleaved needs micro-batches in multiples of "
                 "the pipeline ranks");
}

void check_even_balance(const RuleCheck& check) {
  const bool blocks = check.recipe.pipeline.balance.kind == BalanceKind::blocks;
  const auto layers = check.recipe.model.layers;
  const auto count = stages(check.recipe);
  const auto all = blocks ? layers + 2 : layers;
  if (all % count == 0) return;
  const std::string what = blocks ? std::to_string(layers) + " layers, embedding and head do"
                                  : std::to_string(layers) + (layers == 1 ? " layer does" : " layers do");
  const auto nearest = std::max<std::int64_t>(1, (all + count / 2) / count) * count - (blocks ? 2 : 0);
  check.refuse("/model/layers", what + " not fall evenly on " + std::to_string(count) + " stages",
               std::string(blocks ? "layers + 2" : "layers") +
                   " must be a multiple of parallel.pipeline × pipeline.loops, or pipeline.balance a list",
               nearest > 0 ? std::to_string(nearest) : "");
}

void check_listed_balance(const RuleCheck& check) {
  const auto& list = check.recipe.pipeline.balance.layers_per_stage;
  const auto count = stages(check.recipe);
  const std::string pointer = "/pipeline/balance";
  if (static_cast<std::int64_t>(list.size()) != count) {
    return check.refuse(pointer, "has " + std::to_string(list.size()) + " entries",
                        "must have parallel.pipeline × pipeline.loops = " + std::to_string(count));
  }
  for (std::size_t i = 1; i + 1 < list.size(); ++i) {
    if (list[i] > 0) continue;
    return check.refuse(pointer + "/" + std::to_string(i), "0 leaves the stage empty",
                        "only the first and the last stage may hold no layer", "1");
  }
  const auto sum = std::accumulate(list.begin(), list.end(), std::int64_t{0});
  if (sum == check.recipe.model.layers) return;
  check.refuse(pointer, "holds " + std::to_string(sum) + " layers",
               "must hold model.layers = " + std::to_string(check.recipe.model.layers));
}

}  // namespace

void check_pipeline_rules(const RuleCheck& check) {
  check_schedule(check);
  if (!check.are_clean({"/model/layers", "/parallel/pipeline", "/pipeline/loops", "/pipeline/balance"})) return;
  if (check.recipe.pipeline.balance.kind == BalanceKind::list) {
    check_listed_balance(check);
  } else {
    check_even_balance(check);
  }
}

}  // namespace llmtrain
