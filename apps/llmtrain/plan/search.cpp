// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/search.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/machine/machine_profile.h"
#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/page/text_table.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/search/search.h"

namespace llmtrain::app {
namespace {

using Json = nlohmann::ordered_json;

// A single stage only differs by whether gradients are accumulated with one micro-batch alive.
std::string schedule_of(const Recipe& recipe, const std::string& name) {
  const PipelineRecipe& pipeline = recipe.pipeline;
  const bool pipelined = recipe.parallel.pipeline > 1 || pipeline.loops > 1 ||
                         pipeline.schedule == PipelineSchedule::one_forward_one_backward;
  if (!pipelined) return "-";
  const BalanceKind kind = pipeline.balance.kind;
  const char* balance = kind == BalanceKind::blocks ? " blocks" : kind == BalanceKind::list ? " list" : "";
  return fmt::format("{} × {}{}", name, pipeline.loops, balance);
}

// What memory.offload says is elsewhere.
std::string offloaded(const Json& layout) {
  std::string words;
  if (!layout["memory"].contains("offload")) return words;
  for (const auto& [key, place] : layout["memory"]["offload"].items()) {
    const bool is_on_disk = key == "optimizer" && place.is_string();
    if (place == true || is_on_disk) words += (words.empty() ? "" : " ") + key + (is_on_disk ? " (disk)" : "");
  }
  return words;
}

// `splits_sequences`: whether there is a column of context ranks.
std::vector<TableCell> row(const SearchCandidate& candidate, bool splits_sequences, bool is_best) {
  const Recipe& recipe = candidate.recipe;
  const ParallelRecipe& parallel = recipe.parallel;
  const Json layout = layout_keys(recipe);
  const auto text = [&](const char* section, const char* key) { return layout[section][key].get<std::string>(); };
  const auto of_ranks = [](std::int64_t count, std::string_view joint, std::int64_t others) {
    return others > 0 ? fmt::format("{}{}{}", count, joint, others) : std::to_string(count);
  };
  const std::int64_t splits = expert_tensor(parallel);
  return {{is_best ? "*" : ""},
          {format_duration(candidate.step_seconds)},
          {format_bytes(static_cast<std::int64_t>(candidate.peak_bytes))},
          {std::to_string(parallel.tensor)},
          {splits_sequences ? std::to_string(parallel.context) : ""},
          {std::to_string(parallel.pipeline)},
          {std::to_string(*parallel.data)},
          // Over how many ranks they are, and how many of these split each.
          {recipe.model.moe ? of_ranks(parallel.expert, " × ", splits > 1 ? splits : 0) : ""},
          // The stage, and over how many ranks it shards where they are not all data ranks.
          {of_ranks(parallel.zero_stage, "/", parallel.zero_shard_ranks.value_or(0))},
          {schedule_of(recipe, text("pipeline", "schedule"))},
          {std::to_string(recipe.batch.micro)},
          {recipe.memory.recompute_of_layers.empty() ? text("memory", "recompute") : "by layer"},
          {recipe.memory.chunks > 1 ? std::to_string(recipe.memory.chunks) : ""},
          {offloaded(layout)},
          {text("precision", "fp8_level")},
          {candidate.is_tight ? "tight" : ""}};
}

std::string table(const Recipe& recipe, const SearchResult& result, const std::string& profile, bool derives_data) {
  const TextStyle style = style_of_output();
  const std::string title = fmt::format(
      "{} on {}: {} layouts, {} estimated, {} simulated; Pareto front of step time and memory:", printable(recipe.name),
      profile, result.layouts, result.estimated, result.simulated);
  // Dense models have no column for experts, and no search one for context ranks, pieces or offload where no layout has
  // them.
  const bool splits_sequences = std::ranges::any_of(
      result.front, [](const SearchCandidate& candidate) { return candidate.recipe.parallel.context > 1; });
  const bool offloads = std::ranges::any_of(result.front, [](const SearchCandidate& candidate) {
    return candidate.recipe.memory.offload != OffloadRecipe{};
  });
  const bool cuts_blocks = std::ranges::any_of(
      result.front, [](const SearchCandidate& candidate) { return candidate.recipe.memory.chunks > 1; });
  TextTable front({{""},
                   {"step"},
                   {"memory"},
                   {"tensor"},
                   {splits_sequences ? "context" : ""},
                   {"pipeline"},
                   {"data"},
                   {recipe.model.moe ? "experts" : ""},
                   {"ZeRO"},
                   {"schedule × loops", Align::left},
                   {"micro"},
                   {"recompute", Align::left},
                   {cuts_blocks ? "pieces" : ""},
                   {offloads ? "offload" : "", Align::left},
                   {"FP8", Align::left},
                   {"", Align::left}});
  for (std::size_t i = 0; i < result.front.size(); ++i)
    front.add(row(result.front[i], splits_sequences, i == result.best));
  return paragraph(title, style.width) + '\n' + front.text(style) + '\n' +
         paragraph("* best: the fastest that fits; not a tight one where one with room is about as fast", style.width) +
         (derives_data ? paragraph(fmt::format("data: {}", derived_data_note), style.width) : "");
}

std::string json_text(const SearchResult& result, bool derives_data) {
  Json front = Json::array();
  for (const SearchCandidate& candidate : result.front) {
    Json entry = {
        {"step_seconds", candidate.step_seconds}, {"peak_bytes", candidate.peak_bytes}, {"tight", candidate.is_tight}};
    entry["recipe"] = layout_keys(candidate.recipe);
    front.push_back(std::move(entry));
  }
  const Json report = {{"layouts", result.layouts},    {"estimated", result.estimated}, {"simulated", result.simulated},
                       {"derives_data", derives_data}, {"best", *result.best},          {"front", std::move(front)}};
  return report.dump(2) + "\n";
}

}  // namespace

nlohmann::ordered_json layout_keys(const Recipe& recipe) {
  const Json all = to_json(recipe);
  Json layout;
  layout["parallel"] = {{"tensor", all["parallel"]["tensor"]},
                        {"sequence", all["parallel"]["sequence"]},
                        {"context", all["parallel"]["context"]},
                        {"pipeline", all["parallel"]["pipeline"]},
                        {"data", all["parallel"]["data"]},
                        {"zero_stage", all["parallel"]["zero_stage"]},
                        {"zero_shard_ranks", all["parallel"]["zero_shard_ranks"]}};
  if (recipe.model.moe) {
    layout["parallel"]["expert"] = all["parallel"]["expert"];
    layout["parallel"]["expert_tensor"] = all["parallel"]["expert_tensor"];
    layout["parallel"]["expert_slices"] = all["parallel"]["expert_slices"];
  }
  layout["pipeline"] = {{"schedule", all["pipeline"]["schedule"]},
                        {"loops", all["pipeline"]["loops"]},
                        {"balance", all["pipeline"]["balance"]}};
  layout["batch"] = {{"micro", all["batch"]["micro"]}};
  layout["memory"] = {{"recompute", all["memory"]["recompute"]}};
  if (recipe.memory.chunks > 1) layout["memory"]["chunks"] = recipe.memory.chunks;
  if (recipe.memory.offload != OffloadRecipe{}) layout["memory"]["offload"] = all["memory"]["offload"];
  layout["precision"] = {{"fp8_level", all["precision"]["fp8_level"]}};
  return layout;
}

int show_search(const std::string& file, const Recipe& recipe, const SearchOutputs& outputs) {
  measure_machine(recipe);
  const ClusterProfile profile = profile_of(recipe);
  const SearchResult result = search_layouts(recipe, profile);
  if (result.front.empty()) {
    throw Error(ExitCode::bad_recipe,
                fmt::format("{}: /cluster: none of {} layouts fits the memory of {}; use more devices or a smaller "
                            "batch.sequence_length",
                            file, result.layouts, profile.name));
  }
  write_file_atomically(outputs.best, to_json(result.front[*result.best].recipe).dump(2) + "\n");
  outputs.json ? write_json(json_text(result, outputs.derives_data))
               : write_result(table(recipe, result, profile.name, outputs.derives_data));
  log().info("the best recipe is in {}", outputs.best);
  const Recipe& best = result.front[*result.best].recipe;
  for (const std::string& reason : not_run_as_planned(best, lay_out(best, profile)->graph())) log().warn("{}", reason);
  return static_cast<int>(ExitCode::done);
}

}  // namespace llmtrain::app
