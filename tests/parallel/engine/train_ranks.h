// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "parallel/comm/local/local_world.h"
#include "tests/parallel/engine/training_setting.h"

namespace llmtrain::test {

using Overrides = std::vector<std::string>;

inline Overrides operator+(Overrides left, const Overrides& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

inline std::string in_words(int ranks, const Overrides& overrides) {
  std::string words = std::to_string(ranks) + " ranks";
  for (const std::string& override : overrides) words += " " + override;
  return words;
}

inline std::string zero(int stage) { return "parallel.zero_stage=" + std::to_string(stage); }

// Trains on threads as ranks, which all must report the same; their run.
inline Run train_ranks(const TrainingSetting& setting, int ranks, const Overrides& overrides, std::int64_t steps = 20) {
  const Recipe recipe = setting.recipe(overrides);
  std::vector<Run> runs(static_cast<std::size_t>(ranks));
  LocalWorld world(ranks);
  world.run([&](Communicator& communicator) {
    Trainer trainer(recipe, &communicator);
    runs[static_cast<std::size_t>(communicator.rank())] = TrainingSetting::train(trainer, steps);
  });
  for (const Run& run : runs) check_equal(run, runs.front());
  return runs.front();
}

}  // namespace llmtrain::test
