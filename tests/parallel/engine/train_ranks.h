// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
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

// A world of ranks that train together, and further settings of their recipe.
struct RankCase {
  int ranks;
  Overrides overrides;
};

inline std::string in_words(int ranks, const Overrides& overrides) {
  std::string words = std::to_string(ranks) + " ranks";
  for (const std::string& override : overrides) words += " " + override;
  return words;
}

inline std::string zero(int stage) { return "parallel.zero_stage=" + std::to_string(stage); }

// The communicator that a rank trains with, built on that of the local backend, which outlives it.
using Connect = std::function<std::shared_ptr<Communicator>(Communicator&)>;

inline std::shared_ptr<Communicator> as_it_is(Communicator& communicator) {
  return {&communicator, [](Communicator*) {}};
}

// Trains with threads as ranks, which must all report the same results; returns their run.
inline Run train_ranks(const TrainingSetting& setting, int ranks, const Overrides& overrides, std::int64_t steps = 20,
                       const Connect& connect = as_it_is) {
  const Recipe recipe = setting.recipe(overrides);
  std::vector<Run> runs(static_cast<std::size_t>(ranks));
  LocalWorld world(ranks);
  world.run([&](Communicator& communicator) {
    const std::shared_ptr<Communicator> connected = connect(communicator);
    Trainer trainer(layout_of(recipe, connected->size()), *connected, at::kCPU);
    runs[static_cast<std::size_t>(communicator.rank())] = TrainingSetting::train(trainer, steps);
  });
  for (const Run& run : runs) check_equal(run, runs.front());
  return runs.front();
}

// Checks that every rank of the layout evaluates all of the validation data to what one rank alone does; `model` are
// keys of both.
inline void check_evaluation(const TrainingSetting& setting, const Overrides& model, const RankCase& layout) {
  INFO(in_words(layout.ranks, layout.overrides));
  const Overrides common = model + Overrides{"training.evaluate_batches=0"};
  LoneTrainer alone(setting.recipe(common));
  const double expected = alone.evaluate();
  const Recipe recipe = setting.recipe(common + layout.overrides);
  std::vector<double> losses(static_cast<std::size_t>(layout.ranks));
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    losses[static_cast<std::size_t>(communicator.rank())] = trainer.evaluate();
  });
  for (const double loss : losses) CHECK(loss == Approx(expected).epsilon(1e-6));
}

}  // namespace llmtrain::test
