// SPDX-License-Identifier: Apache-2.0
// Writes the log and the report of a synthetic run, for the tests that read them with TensorBoard and Prometheus'
// client.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "parallel/run/metrics_log.h"
#include "parallel/run/report/live_report.h"
#include "tests/parallel/run/run_recipe.h"

// run_log_tool FOLDER STEPS_DONE LAST: rows of the steps after STEPS_DONE up to LAST, with an evaluation before the
// first step and after every fifth. The loss of step 13 is NaN, and all
// losses have two terms.
int main(int argument_count, char** arguments) {
  using namespace llmtrain;
  if (argument_count != 4) return EXIT_FAILURE;
  const std::int64_t done = std::atoll(arguments[2]), last = std::atoll(arguments[3]);
  MetricsLog log(arguments[1], LogRecipe{}, done);
  if (done == 0) log.write(EvaluationRow{0, 5.5, {{"loss", 5.25}, {"second", 0.25}}});
  for (std::int64_t step = done + 1; step <= last; ++step) {
    const auto x = static_cast<double>(step);
    const double loss = step == 13 ? std::numeric_limits<double>::quiet_NaN() : 1 / x;
    log.write(TrainingRow{step,
                          loss,
                          1e-5 * x,
                          std::sqrt(x),
                          512 * step,
                          0.1 * x,
                          1e6 / x,
                          x / 1000,
                          step << 30,
                          step << 20,
                          0,
                          {{"loss", loss / 2}, {"second", 5 * x}}});
    if (step % 5 == 0) log.write(EvaluationRow{step, 3 / x, {{"loss", 2 / x}, {"second", 1 / x}}});
  }
  Recipe recipe = test::run_recipe(arguments[1]);
  recipe.name = "a \"run\" \\ of two terms";
  LiveReport(arguments[1], recipe, std::nullopt).finish(RunState::finished);
  return EXIT_SUCCESS;
}
