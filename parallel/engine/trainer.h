// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "core/checkpoint/checkpoint.h"
#include "core/data/dataset.h"
#include "core/recipe/recipe.h"
#include "parallel/engine/local_model.h"
#include "parallel/engine/runner.h"
#include "parallel/plan/schedule.h"

namespace llmtrain {

// A model, its optimizer and its data: everything that training steps need, and nothing of what a run leaves on the
// disk. Blocking. Throws Error for what the recipe's files cannot be.
class Trainer {
 public:
  // Opens the data, builds the model with its first weights (the recipe's init_from, else its seed).
  explicit Trainer(const Recipe& recipe);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  std::int64_t steps_done() const { return steps_done_; }
  StepResult step();

  // Mean loss over the validation data: training.evaluate_batches global batches of it, or all. The recipe must name
  // validation data.
  double evaluate();

  // What a checkpoint says beside its tensors; model_state.h makes those.
  CheckpointState state() const;
  // Goes on from a checkpoint of the same model as if training had never stopped.
  void resume(const CheckpointReader& checkpoint);

  const Dataset& train_data() const { return train_; }
  const Dataset* validation_data() const { return validation_ ? &*validation_ : nullptr; }
  LocalModel& model() { return model_; }

 private:
  Recipe recipe_;
  Dataset train_;
  std::optional<Dataset> validation_;
  LocalModel model_;
  RankSchedule schedule_;
  Runner runner_;
  std::int64_t steps_done_ = 0;
};

}  // namespace llmtrain
