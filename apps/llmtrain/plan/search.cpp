// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/search.h"

#include <spdlog/fmt/fmt.h>

#include <cstddef>
#include <string_view>

#include "apps/llmtrain/profiles.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/planner/search.h"

namespace llmtrain::app {
namespace {

using Json = nlohmann::ordered_json;

std::string row(const SearchCandidate& candidate, bool is_best) {
  const Json layout = layout_keys(candidate.recipe);
  const auto text = [&](const char* section, const char* key) { return layout[section][key].get<std::string>(); };
  const PipelineRecipe& pipeline = candidate.recipe.pipeline;
  // A single stage only differs by whether gradients are accumulated with one micro-batch alive.
  const bool pipelined = candidate.recipe.parallel.pipeline > 1 || pipeline.loops > 1 ||
                         pipeline.schedule == PipelineSchedule::one_forward_one_backward;
  const std::string schedule = pipelined ? fmt::format("{} × {}", text("pipeline", "schedule"), pipeline.loops) : "-";
  const ParallelRecipe& parallel = candidate.recipe.parallel;
  // The stage, and over how many ranks it shards where they are not all data ranks.
  const std::string zero = parallel.zero_shard_ranks
                               ? fmt::format("{}/{}", parallel.zero_stage, *parallel.zero_shard_ranks)
                               : std::to_string(parallel.zero_stage);
  const std::string_view mark = candidate.is_tight ? (is_best ? "tight, best" : "tight") : (is_best ? "best" : "");
  std::string line = fmt::format(
      "  {:>8}  {:>9}  {:>6}  {:>8}  {:>5}  {:>4}  {:<19}  {:>5}  {:<9}  {:<3}  {}",
      format_duration(candidate.step_seconds), format_bytes(static_cast<std::int64_t>(candidate.peak_bytes)),
      candidate.recipe.parallel.tensor, candidate.recipe.parallel.pipeline, *parallel.data, zero, schedule,
      candidate.recipe.batch.micro, text("memory", "recompute"), text("precision", "fp8_level"), mark);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string table(const Recipe& recipe, const SearchResult& result, const std::string& profile) {
  std::string text =
      fmt::format("{} on {}: {} layouts, {} fit, {} simulated; Pareto front of step time and memory:\n\n", recipe.name,
                  profile, result.layouts, result.fitting, result.simulated);
  text += fmt::format("  {:>8}  {:>9}  {:>6}  {:>8}  {:>5}  {:>4}  {:<19}  {:>5}  {:<9}  {}\n", "step", "memory",
                      "tensor", "pipeline", "data", "ZeRO", "schedule × loops", "micro", "recompute", "FP8");
  for (std::size_t i = 0; i < result.front.size(); ++i) text += row(result.front[i], i == result.best);
  return text;
}

std::string json_text(const SearchResult& result) {
  Json front = Json::array();
  for (const SearchCandidate& candidate : result.front) {
    Json entry = {
        {"step_seconds", candidate.step_seconds}, {"peak_bytes", candidate.peak_bytes}, {"tight", candidate.is_tight}};
    entry["recipe"] = layout_keys(candidate.recipe);
    front.push_back(std::move(entry));
  }
  const Json report = {{"layouts", result.layouts},
                       {"fitting", result.fitting},
                       {"simulated", result.simulated},
                       {"best", *result.best},
                       {"front", std::move(front)}};
  return report.dump(2) + "\n";
}

}  // namespace

nlohmann::ordered_json layout_keys(const Recipe& recipe) {
  const Json all = to_json(recipe);
  Json layout;
  layout["parallel"] = {
      {"tensor", all["parallel"]["tensor"]},         {"sequence", all["parallel"]["sequence"]},
      {"pipeline", all["parallel"]["pipeline"]},     {"data", all["parallel"]["data"]},
      {"zero_stage", all["parallel"]["zero_stage"]}, {"zero_shard_ranks", all["parallel"]["zero_shard_ranks"]}};
  layout["pipeline"] = {{"schedule", all["pipeline"]["schedule"]}, {"loops", all["pipeline"]["loops"]}};
  layout["batch"] = {{"micro", all["batch"]["micro"]}};
  layout["memory"] = {{"recompute", all["memory"]["recompute"]}};
  layout["precision"] = {{"fp8_level", all["precision"]["fp8_level"]}};
  return layout;
}

int show_search(const std::string& file, const Recipe& recipe, const SearchOutputs& outputs) {
  const ClusterProfile profile = profile_of(recipe);
  const SearchResult result = search_layouts(recipe, profile);
  if (result.front.empty()) {
    throw Error(ExitCode::bad_recipe,
                fmt::format("{}: /cluster: none of {} layouts fits the memory of {}; use more devices or a smaller "
                            "batch.sequence_length",
                            file, result.layouts, profile.name));
  }
  write_file_atomically(outputs.best, to_json(result.front[*result.best].recipe).dump(2) + "\n");
  write_result(outputs.json ? json_text(result) : table(recipe, result, profile.name));
  log().info("the best recipe is in {}", outputs.best);
  return static_cast<int>(ExitCode::done);
}

}  // namespace llmtrain::app
