// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/sweep.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "apps/llmtrain/plan/derived_data.h"
#include "apps/llmtrain/plan/recipe_file.h"
#include "apps/llmtrain/standard_streams.h"
#include "apps/llmtrain/sweep/axes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "parallel/plan/report/html/report_html.h"
#include "parallel/plan/report/sweep.h"

namespace llmtrain::app {

int show_sweep(const std::string& file, const std::vector<Override>& overrides, const std::vector<std::string>& axes,
               const PlanOutputs& outputs) {
  Sweep sweep{.name = file, .axes = axes_of("--sweep", axes), .points = {}};
  for (std::vector<std::string>& values : combinations_of(sweep.axes))
    sweep.points.push_back({.values = std::move(values), .report = {}, .refusal = ""});
  std::optional<Error> first_refusal;
  RelatedPlans plans;
  for (SweepPoint& point : sweep.points) {
    std::vector<Override> all = overrides;
    for (std::size_t i = 0; i < sweep.axes.size(); ++i) all.push_back(sweep.axes[i].key + "=" + point.values[i]);
    try {
      point.report = plans.report_of(file, with_derived_data(file, all));
      sweep.derives_data = point.report->derives_data;
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
