// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/recipe/pipeline_schedules.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {
namespace {

constexpr std::size_t suggestion_count = 3;
constexpr double worthwhile = 0.98;  // of the step's time: smaller gains are within the model's error

struct Change {
  std::string text;
  Recipe recipe;
};

// The recipes that differ from the plan's in one key, or in a few that belong together.
class Neighbours {
 public:
  explicit Neighbours(const Plan& plan) : recipe_(plan.report.recipe), mesh_(plan.report.mesh) {
    change_sharding();
    change_memory();
    change_batch();
    change_pipeline();
    change_degrees();
  }

  const std::vector<Change>& changes() const { return changes_; }

 private:
  template <typename Edit>
  void add(const std::string& text, Edit edit) {
    Change change{text, recipe_};
    edit(change.recipe);
    // Keys that already have the value would suggest the recipe itself.
    if (!(change.recipe == recipe_)) changes_.push_back(std::move(change));
  }

  void change_sharding() {
    if (mesh_.data > 1) {
      for (const std::int64_t stage : {0, 1, 2, 3})
        add("parallel.zero_stage=" + std::to_string(stage), [&](Recipe& other) { other.parallel.zero_stage = stage; });
    }
    if (mesh_.tensor > 1) add("parallel.sequence=true", [](Recipe& other) { other.parallel.sequence = true; });
    add("parallel.overlap=true", [](Recipe& other) { other.parallel.overlap = true; });
  }

  void change_memory() {
    add("memory.recompute=none", [](Recipe& other) { other.memory.recompute = Recompute::none; });
    add("memory.recompute=selective", [](Recipe& other) { other.memory.recompute = Recompute::selective; });
    add("memory.recompute=full", [](Recipe& other) { other.memory.recompute = Recompute::full; });
    add("kernels.attention=flash", [](Recipe& other) { other.kernels.attention = AttentionKernel::flash; });
  }

  void change_batch() {
    for (const std::int64_t micro : {recipe_.batch.micro / 2, recipe_.batch.micro * 2})
      if (micro > 0) add("batch.micro=" + std::to_string(micro), [&](Recipe& other) { other.batch.micro = micro; });
  }

  void change_pipeline() {
    if (mesh_.pipeline > 1) {
      for (const std::int64_t loops : {recipe_.pipeline.loops, recipe_.pipeline.loops * 2}) {
        change_schedule(PipelineSchedule::breadth_first, loops);
        change_schedule(PipelineSchedule::interleaved, loops);
      }
    }
    // On one rank it accumulates gradients with one micro-batch alive.
    change_schedule(PipelineSchedule::one_forward_one_backward, 1);
  }

  void change_schedule(PipelineSchedule schedule, std::int64_t loops) {
    auto text = "pipeline.schedule=" + std::string(traits_of(schedule).word);
    if (loops != recipe_.pipeline.loops) text += " pipeline.loops=" + std::to_string(loops);
    add(text, [&](Recipe& other) {
      other.pipeline.schedule = schedule;
      other.pipeline.loops = loops;
    });
  }

  void change_degrees() {
    if (mesh_.data % 2 != 0) return;
    change_tensor();
    add(halved_data("pipeline", mesh_.pipeline * 2), [&](Recipe& other) {
      other.parallel.pipeline = mesh_.pipeline * 2;
      other.parallel.data = mesh_.data / 2;
    });
  }

  // Keys whose defaults follow `tensor` are written out if they change, so that --set yields this recipe whether or not
  // the recipe's file states them.
  void change_tensor() {
    const std::int64_t degree = mesh_.tensor * 2;
    const bool splits_experts = recipe_.model.moe && recipe_.parallel.expert_tensor == recipe_.parallel.tensor;
    const std::int64_t expert_tensor = splits_experts || !recipe_.model.moe ? degree : recipe_.parallel.expert_tensor;
    std::string text = halved_data("tensor", degree);
    if (mesh_.tensor == 1) text += " parallel.sequence=true";
    if (recipe_.model.moe) text += " parallel.expert_tensor=" + std::to_string(expert_tensor);
    add(text, [&](Recipe& other) {
      other.parallel.tensor = degree;
      other.parallel.data = mesh_.data / 2;
      other.parallel.sequence = other.parallel.sequence || mesh_.tensor == 1;
      other.parallel.expert_tensor = expert_tensor;
    });
  }

  // Doubling a degree takes the ranks from data parallelism, so that the world size stays the same.
  std::string halved_data(const std::string& key, std::int64_t degree) const {
    return "parallel." + key + "=" + std::to_string(degree) + " parallel.data=" + std::to_string(mesh_.data / 2);
  }

  const Recipe& recipe_;
  const Mesh& mesh_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<PlanSuggestion> suggest(const Plan& plan, const ClusterProfile& profile) {
  std::vector<PlanSuggestion> suggestions;
  const Neighbours neighbours(plan);
  for (const Change& change : neighbours.changes()) {
    try {
      const PlanReport report = make_plan(change.recipe, profile).report;
      const bool faster = report.step.seconds < worthwhile * plan.report.step.seconds;
      // A change that does not fit helps nobody; if the plan does not fit yet, any change that fits does.
      if (!report.fits || (plan.report.fits && !faster)) continue;
      suggestions.push_back({change.text, report.step.seconds, fullest_rank(report).peak_bytes, report.fits});
    } catch (const Error&) {
      // A neighbour that breaks a rule of recipes or cannot be laid out is not a suggestion.
    }
  }
  std::ranges::stable_sort(suggestions, {}, &PlanSuggestion::step_seconds);
  if (suggestions.size() > suggestion_count) suggestions.resize(suggestion_count);
  return suggestions;
}

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

}  // namespace llmtrain
