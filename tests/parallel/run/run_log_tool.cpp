// SPDX-License-Identifier: Apache-2.0
// Writes the log of a synthetic run, for the tests that read it with TensorBoard.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "parallel/run/metrics_log.h"

// run_log_tool FOLDER STEPS_DONE LAST: rows of the steps after STEPS_DONE up to LAST, with an evaluation before the
// first step and after every fifth. The loss of step 13 is NaN.
int main(int argument_count, char** arguments) {
  using namespace llmtrain;
  if (argument_count != 4) return EXIT_FAILURE;
  const std::int64_t done = std::atoll(arguments[2]), last = std::atoll(arguments[3]);
  MetricsLog log(arguments[1], LogRecipe{}, done);
  if (done == 0) log.write(EvaluationRow{0, 5.5});
  for (std::int64_t step = done + 1; step <= last; ++step) {
    const auto x = static_cast<double>(step);
    const double loss = step == 13 ? std::numeric_limits<double>::quiet_NaN() : 1 / x;
    log.write(TrainingRow{step, loss, 1e-5 * x, std::sqrt(x), 512 * step, 0.1 * x, 1e6 / x, x / 1000, step << 30,
                          step << 20, 0});
    if (step % 5 == 0) log.write(EvaluationRow{step, 3 / x});
  }
  return EXIT_SUCCESS;
}
