// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "core/base/error.h"
#include "core/recipe/pipeline_schedules.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/report/report_text.h"

namespace llmtrain {
namespace {

constexpr std::size_t suggestion_count = 3;
constexpr double worthwhile = 0.98;  // of the step's time: smaller gains are within the model's error

struct Change {
  std::string text;
  Recipe recipe;
};

class Changes {
 public:
  explicit Changes(const Recipe& recipe) : recipe_(recipe) {}

  template <typename Edit>
  void add(const std::string& text, Edit edit) {
    Change change{text, recipe_};
    edit(change.recipe);
    // Keys that already have the value would suggest the recipe itself.
    if (!(change.recipe == recipe_)) changes_.push_back(std::move(change));
  }
  std::vector<Change> take() { return std::move(changes_); }

 private:
  const Recipe& recipe_;
  std::vector<Change> changes_;
};

void change_batch(const Recipe& recipe, Changes& changes) {
  for (const std::int64_t micro : {recipe.batch.micro / 2, recipe.batch.micro * 2}) {
    if (micro == 0) continue;
    changes.add("batch.micro=" + std::to_string(micro), [&](Recipe& other) { other.batch.micro = micro; });
  }
}

// Doubling a degree takes the ranks from data parallelism, so that the world size stays the same.
std::string halved_data(const Mesh& mesh, const std::string& key, std::int64_t degree) {
  return "parallel." + key + "=" + std::to_string(degree) + " parallel.data=" + std::to_string(mesh.data / 2);
}

// Keys whose defaults follow `tensor` are written out if they change, so that --set yields this recipe whether or not
// the recipe's file states them.
void change_tensor(const Plan& plan, Changes& changes) {
  const Mesh& mesh = plan.report.mesh;
  const Recipe& now = plan.report.recipe;
  const std::int64_t degree = mesh.tensor * 2;
  const bool splits_experts = now.model.moe && now.parallel.expert_tensor == now.parallel.tensor;
  std::string text = halved_data(mesh, "tensor", degree);
  if (mesh.tensor == 1) text += " parallel.sequence=true";
  if (now.model.moe) {
    text += " parallel.expert_tensor=" + std::to_string(splits_experts ? degree : now.parallel.expert_tensor);
  }
  changes.add(text, [&](Recipe& other) {
    other.parallel.tensor = degree;
    other.parallel.data = mesh.data / 2;
    other.parallel.sequence = other.parallel.sequence || mesh.tensor == 1;
    if (splits_experts || !now.model.moe) other.parallel.expert_tensor = degree;
  });
}

void change_degrees(const Plan& plan, Changes& changes) {
  const Mesh& mesh = plan.report.mesh;
  if (mesh.data % 2 != 0) return;
  change_tensor(plan, changes);
  changes.add(halved_data(mesh, "pipeline", mesh.pipeline * 2), [&](Recipe& other) {
    other.parallel.pipeline = mesh.pipeline * 2;
    other.parallel.data = mesh.data / 2;
  });
}

void change_sharding(const Plan& plan, Changes& changes) {
  if (plan.report.mesh.data > 1) {
    for (const std::int64_t stage : {0, 1, 2, 3}) {
      changes.add("parallel.zero_stage=" + std::to_string(stage),
                  [&](Recipe& other) { other.parallel.zero_stage = stage; });
    }
  }
  if (plan.report.mesh.tensor > 1)
    changes.add("parallel.sequence=true", [](Recipe& other) { other.parallel.sequence = true; });
  changes.add("parallel.overlap=true", [](Recipe& other) { other.parallel.overlap = true; });
}

void change_memory(Changes& changes) {
  changes.add("memory.recompute=none", [](Recipe& other) { other.memory.recompute = Recompute::none; });
  changes.add("memory.recompute=selective", [](Recipe& other) { other.memory.recompute = Recompute::selective; });
  changes.add("memory.recompute=full", [](Recipe& other) { other.memory.recompute = Recompute::full; });
  changes.add("kernels.attention=flash", [](Recipe& other) { other.kernels.attention = AttentionKernel::flash; });
}

void change_pipeline(const Plan& plan, Changes& changes) {
  if (plan.report.mesh.pipeline == 1) return;
  const PipelineRecipe& now = plan.report.recipe.pipeline;
  const auto use = [&](PipelineSchedule schedule, std::int64_t loops) {
    auto text = "pipeline.schedule=" + std::string(traits_of(schedule).word);
    if (loops != now.loops) text += " pipeline.loops=" + std::to_string(loops);
    changes.add(text, [&](Recipe& other) {
      other.pipeline.schedule = schedule;
      other.pipeline.loops = loops;
    });
  };
  for (const std::int64_t loops : {now.loops, now.loops * 2}) {
    use(PipelineSchedule::breadth_first, loops);
    use(PipelineSchedule::interleaved, loops);
  }
  use(PipelineSchedule::one_forward_one_backward, 1);
}

std::vector<Change> neighbours(const Plan& plan) {
  Changes changes(plan.report.recipe);
  change_sharding(plan, changes);
  change_memory(changes);
  change_batch(plan.report.recipe, changes);
  change_pipeline(plan, changes);
  change_degrees(plan, changes);
  return changes.take();
}

}  // namespace

std::vector<PlanSuggestion> suggest(const Plan& plan, const ClusterProfile& profile) {
  std::vector<PlanSuggestion> suggestions;
  for (const Change& change : neighbours(plan)) {
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

}  // namespace llmtrain
