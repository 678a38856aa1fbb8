// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/target.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "apps/llmtrain/plan/recipe_file.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/json/json_text.h"
#include "core/page/text_table.h"
#include "core/recipe/schedules/batch_sizes.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain::app {
namespace {

double seconds_of(const std::string& target) {
  const auto unit_seconds = [](char unit) {
    switch (unit) {
      case 'd':
        return 86400;
      case 'h':
        return 3600;
      case 'm':
        return 60;
      case 's':
        return 1;
    }
    return 0;
  };
  std::size_t read = 0;
  double number = 0;
  try {
    number = std::stod(target, &read);
  } catch (const std::exception&) {
    read = 0;
  }
  const int unit = read > 0 && read + 1 == target.size() ? unit_seconds(target.back()) : 0;
  if (unit == 0 || !std::isfinite(number) || number <= 0)
    throw Error(ExitCode::bad_recipe,
                fmt::format("--target {}: must be a time: a number and d, h, m or s, as in 30d or 12h", target));
  return number * unit;
}

// One number of devices.
struct Candidate {
  PlanReport report;

  const PlannedRun& run() const { return report.run; }
  // None where failures let it never end.
  std::optional<double> seconds() const { return run().goodput ? run().goodput->expected_seconds : run().seconds; }
  bool meets(double target) const { return report.fits && seconds() && *seconds() <= target; }
};

// With every number of data ranks that divides the micro-batches and fills whole nodes, ascending.
std::vector<Candidate> candidates_of(const std::string& file, const std::vector<Override>& overrides) {
  RelatedPlans plans;
  const PlanReport stated = plans.report_of(file, with_derived_data(file, overrides));
  const Mesh& mesh = stated.mesh;
  const std::int64_t others = mesh.world() / mesh.data,
                     micros = common_batch(stated.recipe.batch) / stated.recipe.batch.micro;
  std::vector<Candidate> candidates;
  for (std::int64_t data = 1; data <= micros; ++data) {
    const std::int64_t world = data * others;
    const std::int64_t nodes = (world + mesh.devices_per_node - 1) / mesh.devices_per_node;
    if (micros % data != 0 || (nodes > 1 && world % mesh.devices_per_node != 0)) continue;
    std::vector<Override> all = overrides;
    all.push_back(fmt::format("parallel.data={}", data));
    all.push_back(fmt::format("cluster.nodes={}", nodes));
    try {
      candidates.push_back({plans.report_of(file, PlannedOverrides{.all = std::move(all)})});
    } catch (const Error& error) {
      // Other rules concern the number of data ranks, too.
      if (error.code() != ExitCode::bad_recipe) throw;
    }
  }
  return candidates;
}

std::string duration_of(const std::optional<double>& seconds) { return seconds ? format_duration(*seconds) : "never"; }

std::vector<TableCell> row(const Candidate& candidate, bool is_answer) {
  const Mesh& mesh = candidate.report.mesh;
  const PlannedRun& run = candidate.run();
  return {{is_answer ? "*" : ""},
          {std::to_string(mesh.world())},
          {std::to_string(candidate.report.recipe.cluster.nodes)},
          {std::to_string(mesh.data)},
          {format_duration(candidate.report.step.seconds)},
          {duration_of(run.seconds)},
          {run.goodput ? duration_of(run.goodput->expected_seconds) : "unknown"},
          {format_count(run.device_hours)},
          {run.price ? price_text(run) : ""},
          {format_bytes(static_cast<std::int64_t>(fullest_rank(candidate.report).peak_bytes))},
          {std::string(verdict_word(verdict_of(candidate.report)))}};
}

// "8 devices are enough: --set …", and where the error of plans decides whether they are, how many have room.
std::string conclusion_of(const std::vector<Candidate>& candidates, double target, const Candidate* answer) {
  if (answer == nullptr) return "No number of data ranks is enough; change the layout (plan --search) or batch.global.";
  const auto settings = [](const Candidate& candidate) {
    return fmt::format("--set parallel.data={} --set cluster.nodes={}", candidate.report.mesh.data,
                       candidate.report.recipe.cluster.nodes);
  };
  const std::int64_t devices = answer->report.mesh.world();
  std::string text = fmt::format("{} {} enough: {}", format_number_of(devices, "device"), devices == 1 ? "is" : "are",
                                 settings(*answer));
  if (verdict_of(answer->report) != MemoryVerdict::tight) return text;
  const auto roomy = std::ranges::find_if(candidates, [&](const Candidate& each) {
    return each.meets(target) && verdict_of(each.report) == MemoryVerdict::fits;
  });
  text += ", but tight: memory may not be";
  return roomy == candidates.end()
             ? text
             : fmt::format("{}. {} have room: {}", text, format_number_of(roomy->report.mesh.world(), "device"),
                           settings(*roomy));
}

std::string table(const std::vector<Candidate>& candidates, double target, const Candidate* answer) {
  const TextStyle style = style_of_output();
  const PlanReport& first = candidates.front().report;
  const std::string title = fmt::format("{} on {}: {} steps in {}", printable(first.recipe.name), first.profile,
                                        first.recipe.training.steps, format_duration(target));
  TextTable plans({{""},
                   {"devices"},
                   {"nodes"},
                   {"data"},
                   {"step"},
                   {"run"},
                   {"failures"},
                   {"device-hours"},
                   {first.run.price ? "price" : ""},
                   {"memory"},
                   {"", Align::left}});
  for (const Candidate& candidate : candidates) plans.add(row(candidate, &candidate == answer));
  return paragraph(title, style.width) + '\n' + plans.text(style) + '\n' +
         paragraph(conclusion_of(candidates, target, answer), style.width);
}

Json json_of(const Candidate& candidate, double target) {
  const PlanReport& report = candidate.report;
  return {{"devices", report.mesh.world()},
          {"nodes", report.recipe.cluster.nodes},
          {"data", report.mesh.data},
          {"step_seconds", report.step.seconds},
          {"run_seconds", report.run.seconds},
          {"expected_seconds", number_or_null(candidate.seconds())},
          {"device_hours", report.run.device_hours},
          {"price", number_or_null(report.run.price)},
          {"peak_bytes", std::llround(fullest_rank(report).peak_bytes)},
          {"fits", report.fits},
          {"verdict", verdict_word(verdict_of(report))},
          {"meets", candidate.meets(target)}};
}

}  // namespace

int show_target(const std::string& file, const std::vector<Override>& overrides, const std::string& target,
                const PlanOutputs& outputs) {
  const double seconds = seconds_of(target);
  const std::vector<Candidate> candidates = candidates_of(file, overrides);
  if (candidates.empty())
    throw Error(ExitCode::bad_recipe,
                fmt::format("--target: {} can be planned with no number of data ranks that fills whole nodes; change "
                            "batch.global or the other degrees",
                            file));
  const auto found = std::ranges::find_if(candidates, [&](const Candidate& each) { return each.meets(seconds); });
  const Candidate* answer = found == candidates.end() ? nullptr : &*found;
  if (!outputs.json) {
    write_result(table(candidates, seconds, answer));
    return static_cast<int>(ExitCode::done);
  }
  Json plans = Json::array();
  for (const Candidate& candidate : candidates) plans.push_back(json_of(candidate, seconds));
  const Json index = answer == nullptr ? Json(nullptr) : Json(found - candidates.begin());
  write_json(Json{{"target_seconds", seconds}, {"answer", index}, {"plans", plans}}.dump(2) + "\n");
  return static_cast<int>(ExitCode::done);
}

}  // namespace llmtrain::app
