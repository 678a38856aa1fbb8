// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/report/comparison.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/recipe/recipe_difference.h"
#include "core/recipe/recipe_file.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

ComparedRun read_run(const fs::path& directory) {
  const fs::path recipe = recipe_file(directory);
  require_trained_run(directory);
  ComparedRun run;
  run.directory = directory;
  try {
    run.recipe = parse_recipe(read_file(recipe), recipe.string(), directory);
  } catch (const Error& problem) {
    throw Error(ExitCode::bad_data, directory.string() + ": its recipe.json cannot be read:\n" + problem.what());
  }
  run.metrics = read_metrics(metrics_file(directory));
  run.figures = figures_of(run.metrics);
  return run;
}

void name_runs(std::vector<ComparedRun>& runs) {
  std::set<std::string> names;
  const auto last_part = [](const ComparedRun& run) {
    const fs::path path = run.directory.lexically_normal();
    return (path.has_filename() ? path : path.parent_path()).filename().string();
  };
  for (const ComparedRun& run : runs) names.insert(last_part(run));
  const bool tells_apart = names.size() == runs.size();
  for (ComparedRun& run : runs) run.name = printable(tells_apart ? last_part(run) : run.directory.string());
}

std::vector<ComparedKey> differing_keys(const std::vector<ComparedRun>& runs) {
  std::vector<ComparedKey> keys;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    for (const KeyDifference& difference : recipe_differences(runs.front().recipe, runs[i].recipe)) {
      // Labels of a run and its folder, which change nothing of the training.
      if (difference.key == "name" || difference.key == "description" || difference.key == "log.directory") continue;
      auto found = std::ranges::find(keys, difference.key, &ComparedKey::key);
      // Runs in which the key does not differ have the first run's value.
      if (found == keys.end())
        found = keys.insert(found, {difference.key, std::vector<Json>(runs.size(), difference.first)});
      found->values[i] = difference.second;
    }
  }
  return keys;
}

Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json loss_json(const std::optional<LossFigure>& last, const std::optional<LossFigure>& best) {
  return {{"last", last ? number_json(last->loss) : Json(nullptr)},
          {"best", best ? number_json(best->loss) : Json(nullptr)},
          {"best_step", best ? Json(best->step) : Json(nullptr)}};
}

Json run_json(const ComparedRun& run, std::int64_t equal_tokens) {
  const RunFigures& figures = run.figures;
  const auto equal = loss_at(run.metrics, equal_tokens);
  Json loss = loss_json(figures.last, figures.best);
  loss["at_equal_tokens"] = equal ? number_json(equal->loss) : Json(nullptr);
  return {{"directory", run.directory.string()},
          {"name", run.recipe.name},
          {"steps", figures.steps},
          {"tokens", figures.tokens},
          {"seconds", figures.seconds},
          {"loss", std::move(loss)},
          {"validation_loss",
           figures.last_validation ? loss_json(figures.last_validation, figures.best_validation) : Json(nullptr)},
          {"tokens_per_second", number_json(figures.tokens_per_second)},
          {"step_seconds", number_json(figures.step_seconds)},
          {"mfu", number_json(figures.mfu)},
          {"memory_bytes", figures.memory_bytes},
          {"tensor_bytes", figures.tensor_bytes},
          {"skipped", figures.skipped}};
}

}  // namespace

RunComparison compare_runs(const std::vector<fs::path>& directories) {
  RunComparison comparison;
  for (const fs::path& directory : directories) comparison.runs.push_back(read_run(directory));
  name_runs(comparison.runs);
  comparison.equal_tokens =
      std::ranges::min(comparison.runs, {}, [](const ComparedRun& run) { return run.figures.tokens; }).figures.tokens;
  comparison.keys = differing_keys(comparison.runs);
  return comparison;
}

std::string comparison_json(const RunComparison& comparison) {
  Json runs = Json::array(), keys = Json::array();
  for (const ComparedRun& run : comparison.runs) runs.push_back(run_json(run, comparison.equal_tokens));
  for (const ComparedKey& key : comparison.keys) keys.push_back({{"key", key.key}, {"values", key.values}});
  const Json json = {
      {"runs", std::move(runs)}, {"equal_tokens", comparison.equal_tokens}, {"recipe_differences", std::move(keys)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace llmtrain
