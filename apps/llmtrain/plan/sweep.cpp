// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/sweep.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/llmtrain/plan/recipe_file.h"
#include "apps/llmtrain/standard_streams.h"
#include "apps/llmtrain/sweep/axes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/recipe/rules/rules.h"
#include "parallel/plan/report/html/report_html.h"
#include "parallel/plan/report/sweep.h"

namespace llmtrain::app {
namespace {

// Sets a key, or all keys of its section.
bool sets(std::string_view override_or_key, std::string_view key) {
  const std::string_view set = override_or_key.substr(0, override_or_key.find('='));
  return set == key || (key.starts_with(set) && key[set.size()] == '.');
}

// Degrees that share a world's ranks with the data ranks.
constexpr std::array<std::string_view, 3> shared_degrees = {"parallel.tensor", "parallel.pipeline", "parallel.context"};

// A file's data ranks go with its other degrees: with other ones they would be refused. So where an axis changes these,
// and nobody who calls the program says how many data ranks or devices there are, data ranks are what the others leave
// of the file's ranks. What each point then sets beside its own values; else nothing.
std::vector<Override> derived_data(const std::string& file, const std::vector<Override>& overrides,
                                   const std::vector<SweepAxis>& axes) {
  const auto changes_degree = [](const SweepAxis& axis) { return std::ranges::count(shared_degrees, axis.key) > 0; };
  if (std::ranges::none_of(axes, changes_degree)) return {};
  for (const std::string_view key : {"parallel.data", "launch.ranks", "cluster.nodes", "cluster.devices_per_node"}) {
    const bool is_axis = std::ranges::any_of(axes, [&](const SweepAxis& axis) { return sets(axis.key, key); });
    const bool is_set = std::ranges::any_of(overrides, [&](const Override& item) { return sets(item, key); });
    if (is_axis || is_set) return {};
  }
  try {
    const ParallelRecipe parallel = read_recipe(file, overrides).parallel;
    if (!parallel.data) return {};
    return {"parallel.data=auto", fmt::format("launch.ranks={}", ranks_per_replica(parallel) * *parallel.data)};
  } catch (const Error&) {
    return {};  // combinations say what is wrong with it
  }
}

}  // namespace

int show_sweep(const std::string& file, const std::vector<Override>& overrides, const std::vector<std::string>& axes,
               const PlanOutputs& outputs) {
  Sweep sweep{.name = file, .axes = axes_of("--sweep", axes), .points = {}};
  for (std::vector<std::string>& values : combinations_of(sweep.axes))
    sweep.points.push_back({.values = std::move(values), .report = {}, .refusal = ""});
  std::vector<Override> common = overrides;
  const std::vector<Override> data = derived_data(file, overrides, sweep.axes);
  common.insert(common.end(), data.begin(), data.end());
  sweep.derives_data = !data.empty();
  std::optional<Error> first_refusal;
  RelatedPlans plans;
  for (SweepPoint& point : sweep.points) {
    std::vector<Override> all = common;
    for (std::size_t i = 0; i < sweep.axes.size(); ++i) all.push_back(sweep.axes[i].key + "=" + point.values[i]);
    try {
      point.report = plans.report_of(file, all);
      sweep.name = point.report->recipe.name;
    } catch (const Error& error) {
      // A missing file is missing for all of them.
      if (error.code() != ExitCode::bad_recipe) throw;
      point.refusal = first_problem(error);
      if (!first_refusal) first_refusal = error;
    }
  }
  if (std::ranges::none_of(sweep.points, [](const SweepPoint& point) { return point.report.has_value(); }))
    throw Error(ExitCode::bad_recipe,
                fmt::format("--sweep: every combination is refused; the first:\n{}", first_refusal->what()));
  if (outputs.html) write_file_atomically(*outputs.html, sweep_html(sweep));
  outputs.json ? write_json(sweep_json(sweep)) : write_result(sweep_text(sweep, style_of_output()));
  if (outputs.html) log().info("the sweep as a web page: {}", *outputs.html);
  return static_cast<int>(ExitCode::done);
}

}  // namespace llmtrain::app
