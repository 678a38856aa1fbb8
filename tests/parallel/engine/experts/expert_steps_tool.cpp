// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/device/device.h"
#include "tests/parallel/engine/experts/recorded_steps.h"

// What scripts/test-experts shows: trains a recipe of a model with experts and then others, which differ in their
// ranks, all as threads, and writes for each of the others a line of JSON with how it differs from the first one.

namespace {

using llmtrain::StepResult;
using llmtrain::test::RecordedStep;
using nlohmann::json;
using Steps = std::span<const RecordedStep>;

std::vector<RecordedStep> train(const char* file) {
  const llmtrain::Recipe recipe = llmtrain::read_recipe(file);
  return llmtrain::test::recorded_steps(recipe, static_cast<int>(recipe.launch.ranks.value_or(1)),
                                        static_cast<std::size_t>(recipe.training.steps));
}

// Relative to the expected number, in the steps from `first` to before `last`; NaN where one is.
double largest_difference(double StepResult::*number, Steps got, Steps expected, std::size_t first, std::size_t last) {
  double largest = 0;
  for (std::size_t step = first; step < last; ++step) {
    const double difference = std::abs(got[step].result.*number / (expected[step].result.*number) - 1);
    largest = std::isnan(difference) ? difference : std::max(largest, difference);
  }
  return largest;
}

double dropped_share(Steps steps) {
  double sum = 0;
  for (const RecordedStep& step : steps) sum += step.result.routing.dropped_share / step.result.routing.passes;
  return sum / static_cast<double>(steps.size());
}

json compare(Steps got, Steps expected) {
  const llmtrain::test::ChoiceComparison choices = llmtrain::test::compare_choices(got, expected);
  const std::size_t same = choices.same_steps, steps = expected.size();
  return {{"same_steps", same},
          {"loss", largest_difference(&StepResult::loss, got, expected, 0, same)},
          {"grad_norm", largest_difference(&StepResult::gradient_norm, got, expected, 0, same)},
          {"later_loss", largest_difference(&StepResult::loss, got, expected, same, steps)},
          {"narrowly", choices.moved.narrowly},
          {"clearly", choices.moved.clearly},
          {"dropped_share", dropped_share(got)}};
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 3) {
    std::cerr << "usage: expert_steps_tool EXPECTED RECIPE...\n";
    return 2;
  }
  try {
    llmtrain::prepare_process();
    const std::vector<RecordedStep> expected = train(arguments[1]);
    for (int i = 2; i < argument_count; ++i) std::cout << compare(train(arguments[i]), expected) << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
