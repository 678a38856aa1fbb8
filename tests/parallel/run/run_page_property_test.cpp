// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <string>

#include "parallel/run/report/comparison.h"
#include "parallel/run/report/run_page.h"
#include "tests/parallel/run/run_recipe.h"
#include "tests/support/hostile_text.h"

namespace llmtrain {
namespace {

using test::hostile_text;
using test::tags_of;

TrainingRow training_row(std::int64_t step) {
  return {.step = step, .loss = 3, .tokens = 128 * step, .step_seconds = 1, .terms = {{"loss", 2}, {"other", 1}}};
}

// Whose every text, whoever writes it, is `text`.
std::string page_of_run(const std::string& text) {
  static const Recipe recipe = test::run_recipe("/runs/first");
  Recipe named = recipe;
  named.name = named.description = named.cluster.currency = named.cluster.profile = text;
  RunProgress progress;
  for (const std::int64_t step : {1, 2}) progress.add(training_row(step));
  return run_page(named, progress, PlannedFigures{text, 0.25, 512, 2048}, RunState::running);
}

RunComparison comparison_of(const std::string& text) {
  static const Recipe recipe = test::run_recipe("/runs/first");
  RunComparison comparison;
  for (const char* const number : {"1", "2"}) {
    ComparedRun run{text + number, "/runs/" + text, recipe, {}, {}};
    run.metrics.training = {training_row(1), training_row(2)};
    run.figures = figures_of(run.metrics);
    comparison.runs.push_back(std::move(run));
  }
  comparison.keys = {{text, {text, Json{{text, text}}}}};
  return comparison;
}

TEST_CASE("no text makes an element of the pages of runs", "[property]") {
  const auto page = tags_of(page_of_run("x")), comparison = tags_of(comparison_page(comparison_of("x")));
  CHECK((page.size() > 100 && comparison.size() > 100));
  rc::prop("a run's page has the same elements",
           [&](std::uint64_t seed) { RC_ASSERT(tags_of(page_of_run(hostile_text(seed))) == page); });
  rc::prop("a comparison's page has the same elements", [&](std::uint64_t seed) {
    RC_ASSERT(tags_of(comparison_page(comparison_of(hostile_text(seed)))) == comparison);
  });
}

}  // namespace
}  // namespace llmtrain
